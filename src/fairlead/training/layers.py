"""The layers of a model as a framework trains them: what each keeps for its backward pass."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairlead.dataflow import Dataflow, FlowStep, FlowValue
from fairlead.training.merge import merged
from fairlead.training.restore import with_norms
from fairlead.workload import COMPUTE


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_IN_PLACE: Final = _names("Relu LeakyRelu Elu RELU LEAKY_RELU ELU")
"""Activations that overwrite their input: their backward pass needs only the result."""
_KEEP_INPUT: Final = _names(
    "Clip RELU6 RELU_N1_TO_1 Pow Log Erf Sin Cos Abs Gelu Silu HardSwish HardSigmoid Mish Softplus "
    "Softsign PRelu Selu Celu LOG SIN COS ABS GELU HARD_SWISH SQUARE POW LayerNormalization"
)
_KEEP_OUTPUT: Final = _names(
    "Sigmoid Tanh Softmax LogSoftmax Exp Sqrt Reciprocal LOGISTIC TANH SOFTMAX LOG_SOFTMAX EXP SQRT RSQRT"
)
_KEEP_OPERANDS: Final = _names("Mul Div Max Min Where MUL DIV MAXIMUM MINIMUM SELECT SELECT_V2")
_PROMOTED: Final = _names("Softmax LogSoftmax Pow Exp Log Reciprocal Softplus ReduceSum ReduceProd CumSum")
"""Operators that automatic mixed precision computes in 32 bits, beside layer and group norms."""
_MAX_POOLS: Final = ("MaxPool", "MAX_POOL_2D")
_AVERAGE_POOLS: Final = ("AveragePool", "AVERAGE_POOL_2D")
_INDEX: Final = 8
"""Bytes of the place of a maximum that a pool remembers."""
_RECURRENT_STATES: Final = 6
"""Values that a recurrent cell keeps for each that it returns: its gates, its cell, its output."""
WIDE, HALF, SAME = "wide", "half", "same"
"""What automatic mixed precision computes a layer in: 32 bits, 16, or as its inputs are."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator as a framework calls it."""

    op: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    saves: tuple[str, ...] = ()
    """Values that its backward pass reads."""
    copies: bool = False
    """It needs its operands in one piece: parts and reordered views are copied first."""
    shares: bool = False
    """Its output is its input's memory: a view, or overwritten in place."""
    compute: str = SAME
    macs: int = 0
    weights: int = 0
    window: int = 1
    extra: int = 0
    """Further bytes that it keeps, for one pass of the file's batch."""
    fuses: bool = False
    """Attention by one kernel, which never writes its scores."""
    calls: int = 1
    """Kernels of its forward pass."""
    weighted: bool = False
    """It combines a value with weights, which are of 32 bits under mixed precision."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A model to train."""

    layers: tuple[Layer, ...]
    values: Mapping[str, FlowValue]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: int
    """Elements that training changes."""
    norms_restored: int = 0
    """Norms that the file has folded into its convolutions."""


def training_layers(flow: Dataflow) -> Layers:
    """Return a model's layers, with its folded norms restored and its written-out operators merged."""
    restored, norms = with_norms(flow)
    whole = merged(restored)
    readers: dict[str, int] = defaultdict(int)
    for step in whole.steps:
        for name in step.inputs:
            readers[name] += 1
    layers = [_layer(step, whole, readers) for step in whole.steps]
    return Layers(
        tuple(layers),
        whole.values,
        whole.inputs,
        whole.outputs,
        sum(step.weights for step in whole.steps),
        norms,
    )


def _layer(step: FlowStep, flow: Dataflow, readers: Mapping[str, int]) -> Layer:
    base = Layer(
        step.op,
        step.kind,
        step.inputs,
        step.outputs,
        macs=step.macs,
        weights=step.weights,
        window=step.window,
    )
    if step.strided:
        return replace(base, shares=bool(step.inputs), calls=0)
    if step.op == "FusedAttention":
        return replace(base, saves=(*step.inputs, *step.outputs), compute=HALF, fuses=True)
    if step.kind in COMPUTE:
        return _compute(base, step, flow)
    if step.kind == "norm":
        wide = step.op not in ("BatchNormalization", "InstanceNormalization")
        return replace(base, saves=step.inputs[:1], compute=WIDE if wide else SAME)
    return _plain(base, step, flow, readers)


def _compute(base: Layer, step: FlowStep, flow: Dataflow) -> Layer:
    dynamic = step.kind == "attention" or len(step.inputs) > 1
    out = sum(flow.values[name].elements for name in step.outputs)
    extra = 4 * (_RECURRENT_STATES - 1) * out if step.kind == "recurrent" else 0
    return replace(base, saves=step.inputs, copies=dynamic, compute=HALF, extra=extra)


def _plain(base: Layer, step: FlowStep, flow: Dataflow, readers: Mapping[str, int]) -> Layer:
    out = sum(flow.values[name].elements for name in step.outputs)
    compute = WIDE if step.op in _PROMOTED else SAME
    weighted = step.largest_weight > 1 and step.kind == "elementwise"
    saves: Sequence[str] = ()
    extra = 0
    if step.op in _IN_PLACE and step.inputs:
        if readers[step.inputs[0]] == 1 and step.inputs[0] not in flow.inputs:
            return replace(base, saves=step.outputs, shares=True)
        saves = step.outputs
    elif step.op in _KEEP_INPUT or step.op in _AVERAGE_POOLS:
        saves = step.inputs[:1]
    elif step.op in _MAX_POOLS:
        saves, extra = step.inputs[:1], _INDEX * out
    elif step.op in _KEEP_OUTPUT:
        saves = step.outputs
    elif step.op in _KEEP_OPERANDS and (len(step.inputs) > 1 or weighted):
        saves = step.inputs
    return replace(base, saves=tuple(saves), extra=extra, compute=compute, weighted=weighted)
