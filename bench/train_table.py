"""The networks that the bench of training steps through, with their inputs and batches."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from bench.train_networks import (
    Mixer,
    Recurrent,
    TextTransformer,
    UNet,
    VisionTransformer,
    alex,
    dark,
    dense_net,
    group_net,
    mobile,
    next_net,
    plain,
    resnet,
)


def perceptron() -> nn.Module:
    """Return wide fully connected layers."""
    layers: list[nn.Module] = [nn.Linear(1024, 4096), nn.ReLU()]
    for _ in range(6):
        layers += [nn.Linear(4096, 4096), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(4096, 1000))


@dataclass(frozen=True)
class Network:
    """One network, its input and the batches to train it with."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    batch: int
    """On a GPU; a CPU takes fewer."""
    words: int = 0
    """Above 0: inputs are numbers of words."""
    fitted: bool = True
    """Constants were fitted on it: it is reported apart."""


IMAGE = (3, 224, 224)
NETWORKS: dict[str, Network] = {
    "resnet18": Network(lambda: resnet((2, 2, 2, 2)), IMAGE, 64),
    "resnet50": Network(lambda: resnet((3, 4, 6, 3), bottleneck=True), IMAGE, 64),
    "resnext": Network(lambda: resnet((2, 3, 4, 2), bottleneck=True, groups=16), IMAGE, 48),
    "plain-norm": Network(lambda: plain(norm=True), IMAGE, 32),
    "plain": Network(lambda: plain(norm=False), IMAGE, 32),
    "alex": Network(alex, IMAGE, 128),
    "mobile-v2": Network(lambda: mobile(squeeze=False), IMAGE, 64),
    "mobile-se": Network(lambda: mobile(squeeze=True), IMAGE, 48),
    "vit-small": Network(lambda: VisionTransformer(384, 12, 6, fused=True), IMAGE, 64),
    "vit-explicit": Network(lambda: VisionTransformer(512, 8, 8, fused=False), IMAGE, 48),
    "text": Network(TextTransformer, (256,), 32, words=8000),
    "unet-norm": Network(lambda: UNet(32, norm=True), (3, 192, 192), 32),
    "unet": Network(lambda: UNet(48, norm=False), (3, 192, 192), 16),
    "convnext": Network(next_net, IMAGE, 48),
    "densenet": Network(dense_net, IMAGE, 32),
    "darknet": Network(dark, IMAGE, 32),
    "groupnorm": Network(group_net, (3, 128, 128), 64),
    "mixer": Network(Mixer, IMAGE, 64),
    "perceptron": Network(perceptron, (1024,), 512),
    "resnet34-160": Network(lambda: resnet((3, 4, 6, 3)), (3, 160, 160), 32, fitted=False),
    "mobile-128": Network(lambda: mobile(squeeze=False), (3, 128, 128), 128, fitted=False),
    "unet-256": Network(lambda: UNet(48, norm=True), (3, 256, 256), 8, fitted=False),
    "vit-tiny": Network(lambda: VisionTransformer(192, 12, 3, fused=False), IMAGE, 128, fitted=False),
    "text-512": Network(lambda: TextTransformer(4000, 384, 8, 6), (512,), 16, words=4000, fitted=False),
    "mixer-wide": Network(lambda: Mixer(768, 4), IMAGE, 24, fitted=False),
}
"""Every network of the bench, by name."""

_PUBLISHED = {
    "resnet50": 32, "vgg16": 24, "mobilenet_v3_large": 64, "efficientnet_b0": 48, "densenet121": 32,
    "swin_t": 32, "vit_b_16": 24, "convnext_tiny": 24, "shufflenet_v2_x1_0": 96, "squeezenet1_1": 96,
    "regnet_y_400mf": 64, "mnasnet1_0": 64, "alexnet": 128,
}  # fmt: skip
"""Batches of torchvision's networks, of which none was fitted."""


def _published(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import torchvision  # noqa: PLC0415 - only where these were asked for

        model: nn.Module = getattr(torchvision.models, name)(weights=None)
        return model

    return make


if os.environ.get("BENCH_PUBLISHED"):
    NETWORKS |= {
        f"tv-{name}": Network(_published(name), IMAGE, batch, fitted=False)
        for name, batch in _PUBLISHED.items()
    }
    NETWORKS["lstm"] = Network(Recurrent, (64,), 64, words=5000, fitted=False)
