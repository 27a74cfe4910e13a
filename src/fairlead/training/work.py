"""The work of a training step, in the amounts that devices are fast or slow at.

The backward pass of a product is two products: the gradient of its input, and of its weights. Frameworks fuse
little, so every pointwise operator reads and writes memory of its own, forward and backward. The update reads
and writes every weight, gradient and state.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairlead.estimate.amounts import NAMES
from fairlead.training.layers import Layer, Layers
from fairlead.training.setup import TrainingSetup
from fairlead.training.widths import ValuePlaces, storage
from fairlead.workload import COMPUTE

Array = NDArray[np.float64]


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_INDEX: Final = {name: place for place, name in enumerate(NAMES)}
_SMOOTH: Final = _names("Sigmoid Tanh Gelu Silu HardSwish Mish Erf Exp Softmax LogSoftmax Softplus")
_NORM_READS: Final = 2
"""A norm reads its input for its statistics and again to apply them; so does its backward pass."""
_ADDS: Final = ("Add", "ADD", "Sub", "SUB")
_FUSED_BACKWARD: Final = 2.5
"""Fused attention computes its scores again in the backward pass: five products after two."""
_FULL_WIDTH: Final = 4
_HALF_WIDTH: Final = 2


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of one step."""

    forward: Array
    """In the order of `estimate.amounts.NAMES`."""
    backward: Array
    update: Array
    calls: float
    """Kernels that the host starts, one after the other."""

    @property
    def total(self) -> Array:
        """All amounts of a step."""
        whole: Array = self.forward + self.backward + self.update
        return whole


def step_work(layers: Layers, setup: TrainingSetup, file_batch: int) -> StepWork:
    """Return the work of a step."""
    scale = setup.batch / max(1, file_batch)
    places = storage(layers, setup.precision)
    forward, backward = np.zeros((2, len(NAMES)))
    calls = 0.0
    for layer in layers.layers:
        once, again = _layer_work(layer, layers, setup, places, scale)
        forward += once
        backward += again
        calls += _kernels(once + again) / (layer.window if layer.kind == "recurrent" else 1)
    forward[_INDEX["call"]] = 1.0
    update = update_work(layers.weights, setup)
    if setup.checkpointing:
        backward = backward + forward
        calls += _kernels(forward)
    return StepWork(forward, backward, update, calls + setup.rule.calls * _CALL_PER_PASS)


_CALL_PER_PASS: Final = 2.0
"""Kernels of one pass over all weights: frameworks put the weights of many layers in one."""


def _kernels(amounts: Array) -> float:
    return float(amounts[_INDEX["kernels.conv"]] + amounts[_INDEX["kernels.other"]])


def _layer_work(
    layer: Layer, layers: Layers, setup: TrainingSetup, places: ValuePlaces, scale: float
) -> tuple[Array, Array]:
    """Return the amounts of a layer's forward and backward pass."""
    if layer.shares and layer.calls == 0:
        return np.zeros(len(NAMES)), np.zeros(len(NAMES))
    reads = scale * sum(places.size(layers, name) for name in layer.inputs)
    writes = scale * sum(places.size(layers, name) for name in layer.outputs)
    if layer.kind not in COMPUTE:
        return _light(layer, reads, writes)
    casts = setup.precision == "amp" and layer.weights > 0
    weights = layer.weights * (_HALF_WIDTH if casts else setup.weight_width)
    once = _product(layer, reads + writes, weights, scale)
    first = all(name in layers.inputs for name in layer.inputs)
    again = once * (_FUSED_BACKWARD if layer.fuses else 1.0 if first else 2.0)
    if casts:
        for amounts in (once, again):
            amounts[_INDEX["bytes.light"]] += layer.weights * (_FULL_WIDTH + _HALF_WIDTH)
            amounts[_INDEX["kernels.other"]] += 1
    return once, again


def _product(layer: Layer, moved: float, weights: float, scale: float) -> Array:
    """Return the amounts of one convolution or matrix product."""
    amounts = np.zeros(len(NAMES))
    if layer.kind == "depthwise":
        amounts[_INDEX["bytes.depthwise"]] = moved * _depth_factor(layer)
    elif layer.kind == "conv":
        amounts[_INDEX["macs.conv"]], amounts[_INDEX["bytes.conv"]] = layer.macs * scale, moved
    else:
        amounts[_INDEX["macs.product"]], amounts[_INDEX["bytes.light"]] = layer.macs * scale, moved
    dense = layer.kind in ("conv", "depthwise")
    amounts[_INDEX["weights.conv" if dense else "weights.product"]] = weights
    steps = layer.window if layer.kind == "recurrent" else 1  # the library starts those, not the host
    amounts[_INDEX["kernels.conv" if dense else "kernels.other"]] = steps
    return amounts


def _depth_factor(layer: Layer) -> float:
    """Depthwise kernels read a window around every point: large windows cost more than their bytes."""
    return max(1.0, layer.window / 9)


def _light(layer: Layer, reads: float, writes: float) -> tuple[Array, Array]:
    once, again = np.zeros((2, len(NAMES)))
    norm = layer.kind == "norm"
    forward = reads * (_NORM_READS if norm else 1) + writes
    if layer.op in _ADDS and not layer.weighted:
        backward = 0.5 * writes
    elif norm:
        backward = _NORM_READS * (reads + writes) + reads
    else:
        backward = writes + 2 * reads
    once[_INDEX["bytes.light"]] += forward
    again[_INDEX["bytes.light"]] += backward
    if layer.op in _SMOOTH:
        once[_INDEX["bytes.smooth"]] += forward
        again[_INDEX["bytes.smooth"]] += backward
    once[_INDEX["kernels.other"]] += 1
    again[_INDEX["kernels.other"]] += 1 if not (layer.op in _ADDS and not layer.weighted) else 0.5
    return once, again


def update_work(weights: int, setup: TrainingSetup) -> Array:
    """Return the work of an update: every pass reads two values and writes one, for each weight."""
    amounts = np.zeros(len(NAMES))
    rule = setup.rule
    amounts[_INDEX["bytes.light"]] = 3.0 * rule.calls * weights * setup.weight_width
    amounts[_INDEX["kernels.other"]] = rule.calls * _CALL_PER_PASS
    return amounts
