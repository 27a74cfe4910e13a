"""The dataflow of a program: its values with their sizes, and its steps without their constants."""

from collections.abc import Sequence
from math import prod
from typing import Final

from fairlead.analyze import dtypes
from fairlead.analyze.graph import FUSED_ACTIVATION
from fairlead.analyze.operators import VIEWS
from fairlead.analyze.program import Program, Step
from fairlead.dataflow import Dataflow, FlowStep, FlowValue
from fairlead.workload import BITS, Operator


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_STRIDED: Final = _names(
    "Transpose Slice Split Expand TRANSPOSE SLICE STRIDED_SLICE SPLIT SPLIT_V BROADCAST_TO"
)
_TIME_FIRST: Final = ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")
"""ONNX's recurrent operators, whose first axis is time."""
_TRAINED: Final = dtypes.FLOATS | dtypes.NARROW
"""Types of values that are real numbers in training; quantised ones are, too."""
_PICKS: Final = ("Gather", "GATHER")


def dataflow(program: Program, records: Sequence[Operator]) -> Dataflow:
    """Return the dataflow of a program; `records` are the costs of its steps."""
    steps = tuple(_step(program, *pair) for pair in zip(program.steps, records, strict=True))
    names = dict.fromkeys(
        [*program.inputs, *(name for step in steps for name in (*step.inputs, *step.outputs))]
    )
    return Dataflow(
        steps, {name: _value(program, name) for name in names}, tuple(program.inputs), tuple(program.outputs)
    )


def _value(program: Program, name: str) -> FlowValue:
    fact = program.fact(name)
    dims = [dim or 1 for dim in fact.dims or ()]
    points = prod(sorted(dims[1:])[:-1]) if len(dims) > 2 else 1
    return FlowValue(fact.elements, BITS.get(fact.dtype, 32), fact.dtype in _TRAINED, points)


def _step(program: Program, step: Step, record: Operator) -> FlowStep:
    fixed = [name for name in step.inputs if name and program.fixed(name)]
    sizes = [program.fact(name).elements for name in fixed]
    return FlowStep(
        op=step.op,
        kind=record.kind,
        inputs=tuple(name for name in step.inputs if name and not program.fixed(name)),
        outputs=step.outputs,
        macs=record.macs,
        weights=record.params,
        largest_weight=max(sizes, default=0),
        has_bias=len(fixed) > 1,
        weight_name=fixed[0] if fixed else "",
        strided=step.op in VIEWS or step.op in _STRIDED or _picks_one(program, step),
        window=_window(program, step),
        activation=str(step.attributes.get(FUSED_ACTIVATION, "")),
        norm_channels=_channels(program, step),
    )


def _picks_one(program: Program, step: Step) -> bool:
    """Say whether a step picks one entry of an axis of a value, which needs no copy."""
    if step.op not in _PICKS or len(step.inputs) < 2 or program.fixed(step.first):
        return False
    return program.fixed(step.inputs[1]) and program.fact(step.inputs[1]).elements == 1


def _window(program: Program, step: Step) -> int:
    if step.kind == "recurrent":
        sizes = program.fact(step.first).dims or (1,)
        place = 0 if step.op in _TIME_FIRST or len(sizes) < 3 else 1
        return sizes[place] or 1
    if step.kind not in ("conv", "depthwise") or len(step.inputs) < 2:
        return 1
    dims = [dim or 1 for dim in program.fact(step.inputs[1]).dims or ()]
    onnx = not step.op.isupper()
    return max(1, prod(dims[2:] if onnx else dims[1:3]))


def _channels(program: Program, step: Step) -> int:
    if step.kind not in ("conv", "depthwise") or not step.outputs:
        return 0
    dims = program.fact(step.outputs[0]).dims or ()
    place = -1 if step.op.isupper() else 1
    return (dims[place] or 1) if len(dims) > 1 else 0
