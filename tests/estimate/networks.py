"""Networks as profiles: the zoo's, each analysed once, and one more of published tables."""

import tempfile
from functools import cache
from pathlib import Path

from fairlead.analyze import analyze
from fairlead.workload import Profile
from fairlead.zoo import BUILDERS
from fairlead.zoo.build import Net
from fairlead.zoo.graph import NetGraph, NetValue
from fairlead.zoo.onnxfile import write


def inception_v4(batch: int = 1, dtype: str = "fp32") -> NetGraph:
    """Inception v4 at 299 pixels (Szegedy et al. 2016)."""
    net = Net("inception_v4", dtype)
    x = _stem(net, net.input(batch, 3, 299, 299))
    for _ in range(4):
        x = net.concat(
            net.unit(x, 96),
            net.unit(net.unit(x, 64), 96, 3),
            net.unit(net.unit(net.unit(x, 64), 96, 3), 96, 3),
            net.unit(_mean(net, x), 96),
        )
    x = net.concat(
        _narrow(net, x, 384), _narrow(net, net.unit(net.unit(x, 192), 224, 3), 256), net.pool(x, 3, 2)
    )
    for _ in range(7):
        long = net.unit(net.unit(net.unit(x, 192), 192, (7, 1)), 224, (1, 7))
        x = net.concat(
            net.unit(x, 384),
            net.unit(net.unit(net.unit(x, 192), 224, (1, 7)), 256, (7, 1)),
            net.unit(net.unit(long, 224, (7, 1)), 256, (1, 7)),
            net.unit(_mean(net, x), 128),
        )
    wide = net.unit(net.unit(net.unit(x, 256), 256, (1, 7)), 320, (7, 1))
    x = net.concat(_narrow(net, net.unit(x, 192), 192), _narrow(net, wide, 320), net.pool(x, 3, 2))
    for _ in range(3):
        x = _widest(net, x)
    return net.graph(net.linear(net.mean(x), 1000))


def _stem(net: Net, x: NetValue) -> NetValue:
    x = net.unit(_narrow(net, _narrow(net, x, 32), 32, 1), 64, 3)
    x = net.concat(net.pool(x, 3, 2), _narrow(net, x, 96))
    long = net.unit(net.unit(net.unit(x, 64), 64, (1, 7)), 64, (7, 1))
    x = net.concat(_narrow(net, net.unit(x, 64), 96, 1), _narrow(net, long, 96, 1))
    return net.concat(_narrow(net, x, 192), net.pool(x, 3, 2))


def _widest(net: Net, x: NetValue) -> NetValue:
    single = net.unit(x, 384)
    double = net.unit(net.unit(net.unit(x, 384), 448, (3, 1)), 512, (1, 3))
    return net.concat(
        net.unit(x, 256),
        net.unit(single, 256, (1, 3)),
        net.unit(single, 256, (3, 1)),
        net.unit(double, 256, (1, 3)),
        net.unit(double, 256, (3, 1)),
        net.unit(_mean(net, x), 256),
    )


def _narrow(net: Net, x: NetValue, out: int, stride: int = 2) -> NetValue:
    return net.act(net.norm(net.conv(x, out, 3, stride, pad=0)), "relu")


def _mean(net: Net, x: NetValue) -> NetValue:
    return net.pool(x, 3, 1, 1, kind="Average")


@cache
def network(name: str, batch: int = 1, dtype: str = "fp32") -> Profile:
    """Return a network of the zoo, analysed."""
    build = {**BUILDERS, "inception_v4": inception_v4}[name]
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / f"{name}.onnx")
        write(build(batch, dtype), file)
        return analyze(file)
