"""Fold quantisation into the operators around it.

A quantised graph has pairs of Quantize and Dequantize around every operator. A runtime runs none of them: the
operator between them computes in few bits. Counting them as work, or the weights as the floats that they
stand for, is the most common mistake of such counts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fairlead.analyze import dtypes
from fairlead.analyze.graph import Fact
from fairlead.analyze.program import Program, Step
from fairlead.analyze.prune import readers

_QUANTISE: Final = ("QuantizeLinear", "com.microsoft.QuantizeLinear")
_DEQUANTISE: Final = ("DequantizeLinear", "com.microsoft.DequantizeLinear")
_SAME_ELEMENTS: Final = (
    "Reshape",
    "Transpose",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Identity",
    "Slice",
    "Split",
)
_FEW: Final = dtypes.NARROW | {"int16", "uint16"}


def fold_quantisation(program: Program) -> Program:
    """Return the program with operators that read and write quantised values."""
    if not any(step.op in (*_QUANTISE, *_DEQUANTISE) for step in program.steps):
        return replace(program, facts={**program.facts, **_stored_types(program)})
    facts = {**program.facts, **_stored_types(program)}
    steps = tuple(_without_dequantising(program))
    return _without_quantising(replace(program, steps=steps, facts=facts))


def _stored_types(program: Program) -> dict[str, Fact]:
    """Return constants that are dequantised from few bits, with the type that they are stored in."""
    stored: dict[str, str] = {}
    for name, derived in program.derived.items():
        if not derived.inputs:
            continue
        source = derived.inputs[0]
        if derived.op in (*_DEQUANTISE, "DEQUANTIZE"):
            stored[name] = stored.get(source) or program.fact(source).dtype
        elif derived.op in _SAME_ELEMENTS and source in stored:
            stored[name] = stored[source]
    return {name: Fact(dtype, program.fact(name).dims) for name, dtype in stored.items()}


def _without_dequantising(program: Program) -> list[Step]:
    """Return the steps without each Dequantize whose readers can read the quantised value."""
    read, alias, kept = readers(program.steps), dict[str, str](), list[Step]()
    for step in program.steps:
        if step.op in _DEQUANTISE and program.fact(step.first).dtype in _FEW:
            result = step.outputs[0]
            if result not in program.outputs and result in read:
                alias[result] = step.first
                continue
        kept.append(_renamed(step, alias))
    return kept


def _without_quantising(program: Program) -> Program:
    """Return the program without each Quantize that the step before it can do itself."""
    read = readers(program.steps)
    producers = {name: step for step in program.steps for name in step.outputs}
    quantised: dict[str, str] = {}
    alias: dict[str, str] = {}
    for step in program.steps:
        producer = producers.get(step.first)
        if step.op not in _QUANTISE or producer is None or producer.op in (*_QUANTISE, *_DEQUANTISE):
            continue
        source, result = step.first, step.outputs[0]
        only = all(program.steps[place].op in _QUANTISE for place in read[source])
        if not only or source in program.outputs or result in program.outputs:
            continue
        if source in quantised:
            alias[result] = quantised[source]
        else:
            quantised[source] = result
    removed = {*quantised.values(), *alias}
    kept = [_renamed(step, alias) for step in program.steps if not (removed & set(step.outputs))]
    steps = tuple(
        replace(step, outputs=tuple(quantised.get(name, name) for name in step.outputs))
        if any(name in quantised for name in step.outputs)
        else step
        for step in kept
    )
    return replace(program, steps=steps)


def _renamed(step: Step, alias: Mapping[str, str]) -> Step:
    if not any(name in alias for name in step.inputs):
        return step
    return replace(step, inputs=tuple(alias.get(name, name) for name in step.inputs))
