"""Remove steps that no runtime executes: constant folding, dead code, and no-ops."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from fairlead.analyze.operators import NO_OPS, RANDOM
from fairlead.analyze.program import DerivedConstant, Program, Step

_ONLY_SHAPE: Final = frozenset(("Shape", "Size", "SHAPE", "RANK", "ConstantOfShape", "EyeLike", "ZEROS_LIKE"))
"""Operators that read no element of their input."""


def prune(program: Program) -> Program:
    """Return the program without the steps that do not run."""
    kept, derived, alias = _fold_constants(program)
    outputs = tuple(alias.get(name, name) for name in program.outputs)
    output_names = {alias.get(name, name): label for name, label in program.output_names.items()}
    return replace(
        program,
        steps=tuple(_live(kept, outputs)),
        outputs=outputs,
        derived=derived,
        output_names=output_names,
    )


def _fold_constants(program: Program) -> tuple[list[Step], dict[str, DerivedConstant], dict[str, str]]:
    """Return the steps that depend on an input, the constants computed by the others, and the aliases."""
    kept: list[Step] = []
    derived: dict[str, DerivedConstant] = {}
    alias: dict[str, str] = {}
    for step in program.steps:
        inputs = tuple(alias.get(name, name) for name in step.inputs)
        fixed = [name in program.constants or name in derived for name in inputs]
        if _is_fixed(step, program, fixed):
            sources = tuple(name for name, constant in zip(inputs, fixed, strict=True) if constant and name)
            folded = DerivedConstant(step.op, () if step.op in _ONLY_SHAPE else sources)
            derived.update(dict.fromkeys(step.outputs, folded))
        elif _is_no_op(step, program, inputs):
            alias[step.outputs[0]] = inputs[0]
        else:
            kept.append(step if inputs == step.inputs else replace(step, inputs=inputs))
    return kept, derived, alias


def _is_fixed(step: Step, program: Program, fixed: Sequence[bool]) -> bool:
    if step.kind == "control" or step.op in RANDOM or not step.outputs:
        return False
    if all(program.fact(name).values is not None for name in step.outputs):
        return True
    present = [constant for constant, name in zip(fixed, step.inputs, strict=True) if name]
    return bool(present) and all(present)


def _is_no_op(step: Step, program: Program, inputs: Sequence[str]) -> bool:
    if not step.outputs or not inputs or not inputs[0]:
        return False
    if step.op in ("Cast", "CAST"):
        before, after = program.fact(inputs[0]).dtype, program.fact(step.outputs[0]).dtype
        return before == after
    return step.op in NO_OPS


def _live(steps: Sequence[Step], outputs: Sequence[str]) -> list[Step]:
    """Return the steps that an output depends on."""
    needed = set(outputs)
    kept: list[Step] = []
    for step in reversed(steps):
        if any(name in needed for name in step.outputs):
            needed.update(step.inputs)
            kept.append(step)
    kept.reverse()
    return kept


def readers(steps: Sequence[Step]) -> Mapping[str, list[int]]:
    """Return the steps that read each value, in order, each once."""
    by_value: dict[str, list[int]] = {}
    for place, step in enumerate(steps):
        for name in dict.fromkeys(step.inputs):
            if name:
                by_value.setdefault(name, []).append(place)
    return by_value
