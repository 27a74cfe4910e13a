"""The values between a model's operators, and who reads them: what a training step keeps follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


VIEWS: Final = _names(
    "Reshape Flatten Squeeze Unsqueeze RESHAPE SQUEEZE EXPAND_DIMS STABLEHLO_RESHAPE BITCAST"
)
"""Operators that give the same bytes another shape: no data moves."""


@dataclass(frozen=True, slots=True)
class FlowValue:
    """A value that changes from run to run."""

    elements: int
    bits: int
    is_float: bool = True
    points: int = 1
    """Places of an image or a sequence: elements that share a channel, of one input."""


@dataclass(frozen=True, slots=True)
class FlowStep:
    """One operator, as it stands between its values."""

    op: str
    kind: str
    inputs: tuple[str, ...]
    """The values that it reads; constants are left out."""
    outputs: tuple[str, ...]
    macs: int = 0
    weights: int = 0
    """Elements of the weights that no earlier operator reads: training changes them."""
    largest_weight: int = 0
    """Elements of the largest constant that it reads: 1 or less where that is a plain number."""
    has_bias: bool = True
    weight_name: str = ""
    """The name of its first constant, as the file has it."""
    strided: bool = False
    """It shows its input in another order or in part, without a copy."""
    window: int = 1
    """Elements of the window of a convolution; of a recurrent layer, the steps of its sequence."""
    activation: str = ""
    """The activation that it applies to its result itself."""
    norm_channels: int = 0
    """Channels that a norm after it would have."""


@dataclass(frozen=True, slots=True)
class Dataflow:
    """The steps of a model in an order in which they can run."""

    steps: tuple[FlowStep, ...] = ()
    values: Mapping[str, FlowValue] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
