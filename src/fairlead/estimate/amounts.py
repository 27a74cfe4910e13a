"""Amounts of work by what devices are fast or slow at: what all predictions are sums over."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairlead.calibration import Features, OperatorWork
from fairlead.workload import COMPUTE, KINDS

Array = NDArray[np.float64]

NAMES: Final = (
    "call",
    "macs.conv",
    "bytes.conv",
    "weights.conv",
    "bytes.depthwise",
    "macs.product",
    "weights.product",
    "bytes.light",
    "bytes.smooth",
    "kernels.conv",
    "kernels.other",
)
"""A run; multiply-adds, activations moved and weights read by kind of work; kernels that are begun.

Depthwise convolutions have no multiply-adds here: what they move decides how long they take.
"""
MEMORY: Final = ("process", "weights.conv", "largest.conv", "weights.other", "live")
"""What memory is made of: a runtime holds copies of convolutions' weights while it rearranges them."""

_PRODUCTS: Final = ("matmul", "attention", "recurrent")
_LIGHT: Final = tuple(kind for kind in KINDS if kind not in COMPUTE)
_FOLDED: Final = ("conv", "depthwise", "norm")
_OF_BATCH: Final = np.array([name.startswith(("macs", "bytes")) for name in NAMES])
_OF_WIDTH: Final = np.array([name.startswith(("bytes", "weights")) for name in NAMES])


@dataclass(frozen=True, slots=True)
class WorkAmounts:
    """A model as predictions see it."""

    time: Array
    """In the order of NAMES."""
    memory: Array
    """In the order of MEMORY."""
    weights: float
    """All of them, in bytes."""
    carried: float
    """Bytes of inputs and outputs: what passes between the host and the device."""

    def scaled(self, batch: float, width: float) -> "WorkAmounts":
        """Return the amounts for so many times the batch, in elements so many times as wide."""
        time = self.time * np.where(_OF_BATCH, batch, 1.0) * np.where(_OF_WIDTH, width, 1.0)
        memory = self.memory * np.array([1.0, width, width, width, width * batch])
        return replace(
            self,
            time=time,
            memory=memory,
            weights=self.weights * width,
            carried=self.carried * width * batch,
        )


def amounts(model: Features) -> WorkAmounts:
    """Add up what a model asks of a device."""

    def total(amount: Callable[[OperatorWork], int], *kinds: str) -> float:
        return float(sum(amount(model.work[kind]) for kind in kinds if kind in model.work))

    led = total(lambda work: work.kernels, "conv")
    time = [
        1.0,
        total(lambda work: work.macs, "conv"),
        total(lambda work: work.moved_bytes, "conv"),
        total(lambda work: work.weight_bytes, "conv"),
        total(lambda work: work.moved_bytes, "depthwise"),
        total(lambda work: work.macs, *_PRODUCTS),
        total(lambda work: work.weight_bytes, *_PRODUCTS),
        total(lambda work: work.moved_bytes, *_LIGHT),
        total(lambda work: work.smooth_bytes, *KINDS),
        led,
        max(0.0, model.groups - led),
    ]
    weights = total(lambda work: work.weight_bytes, *KINDS)
    folded = total(lambda work: work.weight_bytes, *_FOLDED)
    largest = max(
        (model.work[kind].largest_weight_bytes for kind in _FOLDED if kind in model.work), default=0
    )
    memory = [1.0, folded, largest, weights - folded, model.peak_bytes]
    carried = float(model.input_bytes + model.output_bytes)
    return WorkAmounts(np.array(time), np.array(memory, dtype=np.float64), weights, carried)
