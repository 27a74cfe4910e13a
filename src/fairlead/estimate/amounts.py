"""Amounts of work, by the kinds that devices are fast or slow at: every prediction is a sum over them."""

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
"""A run; multiply-adds, activations moved and weights read, by kind of work; kernels launched.

Depthwise convolutions have no multiply-adds here: the bytes that they move decide how long they take.
"""
MEMORY: Final = ("process", "weights.conv", "largest.conv", "weights.other", "live")
"""The parts of a model's memory: a runtime holds copies of convolution weights while it rearranges them."""

_PRODUCTS: Final = ("matmul", "attention", "recurrent")
_LIGHT: Final = tuple(kind for kind in KINDS if kind not in COMPUTE)
_FOLDED: Final = ("conv", "depthwise", "norm")
_OF_BATCH: Final = np.array([name.startswith(("macs", "bytes")) for name in NAMES])
_OF_WIDTH: Final = np.array([name.startswith(("bytes", "weights")) for name in NAMES])


@dataclass(frozen=True, slots=True)
class WorkAmounts:
    """The amounts of work of one model."""

    time: Array
    """In the order of NAMES."""
    memory: Array
    """In the order of MEMORY."""
    weights: float
    """Bytes of all weights."""
    carried: float
    """Bytes of inputs and outputs, which pass between the host and the device."""

    def scaled(self, batch: float, width: float) -> "WorkAmounts":
        """Return the amounts for a batch `batch` times as large, in elements `width` times as wide."""
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
    """Add up the work of a model."""

    def total(amount: Callable[[OperatorWork], int], *kinds: str) -> float:
        return float(sum(amount(model.work[kind]) for kind in kinds if kind in model.work))

    conv_kernels = total(lambda work: work.kernels, "conv")
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
        conv_kernels,
        max(0.0, model.groups - conv_kernels),
    ]
    weights = total(lambda work: work.weight_bytes, *KINDS)
    folded = total(lambda work: work.weight_bytes, *_FOLDED)
    largest = max(
        (model.work[kind].largest_weight_bytes for kind in _FOLDED if kind in model.work), default=0
    )
    memory = [1.0, folded, largest, weights - folded, model.peak_bytes]
    carried = float(model.input_bytes + model.output_bytes)
    return WorkAmounts(np.array(time), np.array(memory, dtype=np.float64), weights, carried)
