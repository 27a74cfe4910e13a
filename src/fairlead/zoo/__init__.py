"""Models that this project builds itself: eight known networks, and a pack of small ones for calibration."""

from collections.abc import Callable
from typing import Final

from fairlead.zoo.attention import vit_tiny
from fairlead.zoo.dense import inception_v3, resnet18, resnet50
from fairlead.zoo.graph import NetGraph
from fairlead.zoo.mobile import efficientnet_b0, mobilenet_v1, mobilenet_v2, ssd_mobilenet_v1
from fairlead.zoo.pack import (
    branches,
    columns,
    depthwise,
    hourglass,
    ladder,
    mixer,
    plain,
    points,
    sentence,
    shortcuts,
    thread,
)

Builder = Callable[[int, str], NetGraph]
"""Builds a model for a batch and a precision."""

KNOWN: Final[dict[str, Builder]] = {
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "inception_v3": inception_v3,
    "ssd_mobilenet_v1": ssd_mobilenet_v1,
    "efficientnet_b0": efficientnet_b0,
    "vit_tiny": vit_tiny,
}
"""Published networks: they measure the error of predictions, so no calibration runs them."""
PACK: Final[dict[str, Builder]] = {
    "plain": plain,
    "points": points,
    "depthwise": depthwise,
    "ladder": ladder,
    "shortcuts": shortcuts,
    "branches": branches,
    "columns": columns,
    "sentence": sentence,
    "mixer": mixer,
    "hourglass": hourglass,
    "thread": thread,
}
"""The models that calibration runs."""
BUILDERS: Final = {**KNOWN, **PACK}
