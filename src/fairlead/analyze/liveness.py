"""How much memory the values between operators take when they take most.

Steps run in the order of the file. A value lives from the step that makes it to the last that reads it; an
input as long as it is read, an output to the end. Pointwise work overwrites an input of the same size that
nobody reads afterwards, as runtimes do; a view takes nothing. Workspace of kernels is not counted.
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
    given = set(live)
    for place, step in enumerate(program.steps):
        for name in step.outputs:
            if base.get(name, name) != name or program.fixed(name):
                continue
            size = program.fact(name).size
            taken = _overwritten(step, place, size, live, last, base, given) if in_place else None
            if taken is not None:
                del live[taken]
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
    given: set[str],
) -> str | None:
    """Return an input whose memory the output can take over."""
    if step.kind not in _IN_PLACE or len(step.outputs) != 1:
        return None
    for given_name in step.inputs:
        name = base.get(given_name, given_name)
        if live.get(name) == size and last.get(name) == place and name not in given:
            return name
    return None


def _bases(program: Program) -> dict[str, str]:
    """Return whose memory each value lies in: views and the results of bodies have none of their own."""
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
