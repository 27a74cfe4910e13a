"""The peak memory of the values between operators.

Steps run in the order of the file. A value lives from the step that produces it to the last step that reads
it; an input lives until its last read, an output to the end. As in runtimes, pointwise work overwrites an
input of the same size that no later step reads, and a view takes no memory. Workspace of kernels is not
counted.
"""

from collections.abc import Mapping
from typing import Final

from fairlead.analyze.operators import VIEWS
from fairlead.analyze.program import Program, Step

_IN_PLACE: Final = ("elementwise", "activation", "norm")
_FOREVER: Final = 1 << 60


def peak(program: Program, *, in_place: bool = True) -> int:
    """Return the most bytes that live at one time."""
    base = _bases(program)
    last = _last_reads(program, base)
    live = {name: program.fact(name).size for name in program.inputs if name in last}
    now = highest = sum(live.values())
    model_inputs = set(live)
    for place, step in enumerate(program.steps):
        for name in step.outputs:
            if base.get(name, name) != name or program.fixed(name):
                continue
            size = program.fact(name).size
            overwritten = (
                _overwritten(step, place, size, live, last, base, model_inputs) if in_place else None
            )
            if overwritten is not None:
                del live[overwritten]
            else:
                now += size
            live[name] = size
        highest = max(highest, now)
        for name in {base.get(name, name) for name in (*step.inputs, *step.outputs)}:
            if name in live and last.get(name, place) <= place:
                now -= live.pop(name)
    return highest


def _overwritten(
    step: Step,
    place: int,
    size: int,
    live: Mapping[str, int],
    last: Mapping[str, int],
    base: Mapping[str, str],
    model_inputs: set[str],
) -> str | None:
    """Return an input whose memory the output can reuse."""
    if step.kind not in _IN_PLACE or len(step.outputs) != 1:
        return None
    for input_ in step.inputs:
        name = base.get(input_, input_)
        if live.get(name) == size and last.get(name) == place and name not in model_inputs:
            return name
    return None


def _bases(program: Program) -> dict[str, str]:
    """Return the value whose memory each value uses: views and results of bodies have none of their own."""
    base: dict[str, str] = {}
    for step in program.steps:
        if step.op in VIEWS and step.inputs and step.outputs:
            base[step.outputs[0]] = base.get(step.inputs[0], step.inputs[0])
        elif step.kind == "control" and len(step.inputs) >= len(step.outputs) > 0:
            for name, source in zip(step.outputs, step.inputs[-len(step.outputs) :], strict=True):
                base[name] = base.get(source, source)
    return base


def _last_reads(program: Program, base: Mapping[str, str]) -> dict[str, int]:
    last: dict[str, int] = {}
    for place, step in enumerate(program.steps):
        for name in step.inputs:
            if name and not program.fixed(name):
                last[base.get(name, name)] = place
    for name in program.outputs:
        last[base.get(name, name)] = _FOREVER
    return last
