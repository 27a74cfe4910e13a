"""Guess which operators run as one kernel: a convolution with its norm and activation, attention, a norm.

Only fusions that every runtime makes are assumed: pointwise work joins the operator before it where no other
operator reads the value between them. A group has one value as its output.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from fairlead.analyze.operators import SOFTMAX, VIEWS
from fairlead.analyze.program import Program, Step
from fairlead.analyze.prune import readers

_ANCHORS: Final = ("conv", "depthwise", "matmul", "attention", "recurrent", "pool", "resize", "embedding")
_POINTWISE: Final = ("elementwise", "activation")
_LARGEST_TRIAL: Final = 16
_SIDE: Final = 3
"""The most steps that may compute a side input of a kernel."""
_Joins: TypeAlias = Callable[[Step], bool]


def group(program: Program) -> tuple[Program, list[int]]:
    """Return the program with attention recognised, and the group of every step."""
    grouping = _Grouping(program)
    steps = list(program.steps)
    for index, step in enumerate(steps):
        if step.kind == "matmul" and grouping.is_dynamic(step):
            products = grouping.attention(index)
            for product in products:
                steps[product] = replace(steps[product], kind="attention")
    for index in range(len(steps)):
        grouping.assign_group(index)
    return replace(program, steps=tuple(steps)), grouping.groups


@dataclass(slots=True)
class _Members:
    """Some steps, and their values that other steps read."""

    first: int
    steps: list[int]
    pending_reads: dict[str, int]
    """The number of steps outside that read each value."""
    inside: set[str] = field(default_factory=set)


class _Grouping:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._steps = program.steps
        self._base = _views(program)
        self._readers = readers([_rebased(step, self._base) for step in program.steps])
        self._makers = {name: place for place, step in enumerate(program.steps) for name in step.outputs}
        self._outputs = {self._base.get(name, name) for name in program.outputs}
        self._count = 0
        self.groups = [-1] * len(self._steps)

    def is_dynamic(self, step: Step) -> bool:
        """Say whether both operands of a product change from run to run."""
        return len(step.inputs) > 1 and not any(self._program.fixed(name) for name in step.inputs[:2])

    def attention(self, place: int) -> tuple[int, ...]:
        """Group a product, a softmax and a product, and return the two products; empty without them."""
        if self.groups[place] >= 0:
            return ()
        members = self._grow(place, lambda step: step.kind in _POINTWISE)
        if (
            not any(self._steps[index].op in SOFTMAX for index in members.steps)
            or len(members.pending_reads) != 1
        ):
            return ()
        (value,) = members.pending_reads
        following = self._readers.get(value, [])
        if len(following) != 1 or value in self._outputs:
            return ()
        second = self._steps[following[0]]
        if second.kind != "matmul" or not self.is_dynamic(second) or self.groups[following[0]] >= 0:
            return ()
        self._assign([*members.steps, following[0]])
        return place, following[0]

    def assign_group(self, place: int) -> None:
        """Assign a group to a step and to all that follow it in one kernel."""
        step = self._steps[place]
        if self.groups[place] >= 0:
            return
        if step.op in VIEWS and step.inputs and self._makers.get(step.inputs[0], place) < place:
            self.groups[place] = self.groups[self._makers[step.inputs[0]]]
            return
        self._assign(self._grow(place, _joins(step)).steps)

    def _assign(self, steps: Sequence[int]) -> None:
        for place in steps:
            self.groups[place] = self._count
        self._count += 1

    def _grow(self, place: int, joins: _Joins) -> _Members:
        """Return a step with the steps that can follow it, as long as the group has one output."""
        members = _Members(place, [], {})
        self._add(members, place)
        while len(members.pending_reads) == 1:
            trial = self._only_reader(members, joins) or self._trial(members, joins)
            if trial is None:
                break
            for index in trial:
                self._add(members, index)
        return members

    def _only_reader(self, members: _Members, joins: _Joins) -> list[int] | None:
        """Return the only reader of the group's output, where there is one and it can join."""
        ((name, count),) = members.pending_reads.items()
        following = self._readers.get(name, ())
        if count != 1 or len(following) != 1 or not self._may_join(following[0], members, members, joins):
            return None
        return list(following)

    def _trial(self, members: _Members, joins: _Joins) -> list[int] | None:
        """Return the fewest steps after which the group has one output again."""
        trial = _Members(members.first, [], dict(members.pending_reads), set())
        while len(trial.steps) < _LARGEST_TRIAL:
            place = self._next(members, trial)
            if place is None or not self._may_join(place, members, trial, joins):
                return None
            self._add(trial, place)
            if len(trial.pending_reads) == 1:
                return trial.steps
        return None

    def _next(self, members: _Members, trial: _Members) -> int | None:
        """Return the first step that reads an output of the group."""
        if any(count > _LARGEST_TRIAL for count in trial.pending_reads.values()):
            return None
        reading = (place for name in trial.pending_reads for place in self._readers.get(name, ()))
        outside = (place for place in reading if self._steps[place].op not in VIEWS)
        return min((place for place in outside if not self._is_member(place, members, trial)), default=None)

    def _is_member(self, place: int, members: _Members, trial: _Members) -> bool:
        outputs = self._steps[place].outputs
        return any(name in members.inside or name in trial.inside for name in outputs)

    def _may_join(self, place: int, members: _Members, trial: _Members, joins: _Joins) -> bool:
        step = self._steps[place]
        if self.groups[place] >= 0 or not joins(step) or len(step.outputs) != 1:
            return False
        if len(step.inputs) > _LARGEST_TRIAL:
            return False
        names = (self._base.get(name, name) for name in step.inputs)
        outside = (name for name in names if name not in members.inside and name not in trial.inside)
        return all(self._ready(name, members.first, _SIDE) for name in outside)

    def _ready(self, name: str, first: int, depth: int) -> bool:
        """Say whether a value exists before the kernel runs, or takes few steps, such as a mask."""
        maker = self._makers.get(name)
        if maker is None or maker < first:
            return True
        step = self._steps[maker]
        if not depth or step.kind not in (*_POINTWISE, "move"):
            return False
        return all(self._ready(input_, first, depth - 1) for input_ in step.inputs[:8])

    def _add(self, members: _Members, place: int) -> None:
        members.steps.append(place)
        step = self._steps[place]
        for name in {self._base.get(name, name) for name in step.inputs}:
            if name in members.pending_reads:
                members.pending_reads[name] -= 1
                if not members.pending_reads[name]:
                    del members.pending_reads[name]
        for name in step.outputs:
            members.inside.add(name)
            reads = sum(self._steps[reader].op not in VIEWS for reader in self._readers.get(name, ()))
            if name in self._outputs:
                reads += _LARGEST_TRIAL + 1  # the caller of the model reads it
            if reads:
                members.pending_reads[name] = reads


def _joins(head: Step) -> _Joins:
    """Return a function that says which steps can join the kernel of a first step."""
    if head.kind in _ANCHORS:
        return lambda step: _pointwise(step) or step.op == "BatchNormalization"
    if head.kind == "norm" or head.op in SOFTMAX:
        return _pointwise
    if head.kind in (*_POINTWISE, "reduce"):
        return lambda step: (
            _pointwise(step) or (step.kind == "reduce" and step.op.startswith(("Reduce", "MEAN")))
        )
    return lambda step: False


def _pointwise(step: Step) -> bool:
    return step.kind in _POINTWISE and step.op not in SOFTMAX


def _views(program: Program) -> Mapping[str, str]:
    """Return for each view the value whose elements it shows."""
    base: dict[str, str] = {}
    for step in program.steps:
        if step.op in VIEWS and step.inputs and step.outputs:
            base[step.outputs[0]] = base.get(step.inputs[0], step.inputs[0])
    return base


def _rebased(step: Step, base: Mapping[str, str]) -> Step:
    if not any(name in base for name in step.inputs):
        return step
    return replace(step, inputs=tuple(base.get(name, name) for name in step.inputs))
