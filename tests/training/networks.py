"""Networks to train, written by the project's own builder, and their layers."""

from fairlead.analyze import analyze
from fairlead.training.layers import Layers, training_layers
from fairlead.workload import Profile
from fairlead.zoo.build import Net
from fairlead.zoo.graph import NetGraph, NetValue
from fairlead.zoo.onnxfile import write


def profile_of(graph: NetGraph, folder: str) -> Profile:
    """Return the profile of a network."""
    path = f"{folder}/{graph.name}.onnx"
    write(graph, path)
    return analyze(path)


def layers_of(graph: NetGraph, folder: str) -> Layers:
    """Return the layers of a network."""
    return training_layers(profile_of(graph, folder).flow)


def units(net: Net, x: NetValue, *, norm: bool, act: str = "relu") -> NetValue:
    """Return two convolutions of 64 channels, each activated."""
    for _ in range(2):
        y = net.conv(x, 64, 3, bias=not norm)
        x = net.act(net.norm(y) if norm else y, act)
    return x
