"""Merge what exporters write out: a framework computes GELU, SiLU, a norm or attention in one call.

It also keeps less then: the input of a GELU, not the four values between its parts.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairlead.dataflow import Dataflow, FlowStep

_TRIGGERS: Final = {
    "Erf": "Gelu",
    "Tanh": "Gelu",
    "Sigmoid": "Silu",
    "HardSigmoid": "HardSwish",
    "Softplus": "Mish",
    "Sqrt": "LayerNormalization",
    "RSQRT": "LayerNormalization",
    "LOGISTIC": "Silu",
    "SQRT": "LayerNormalization",
}
"""By the operator that gives it away, what a group of written-out operators is."""
_JOINING: Final = ("elementwise", "activation", "reduce")
_MOST: Final = 12
"""The most operators of one group."""
_FAR: Final = 6
"""How far before its telling operator a group may begin."""
_ADDS: Final = ("Add", "ADD")
_SCALES: Final = ("Mul", "Div", "MUL", "DIV")


def merged(flow: Dataflow) -> Dataflow:
    """Return the dataflow with every group as one step."""
    whole = _with_attention(_with_biases(flow))
    graph = _Graph.of(whole.steps)
    replaced: dict[int, FlowStep | None] = {}
    for index, step in enumerate(whole.steps):
        if step.op in _TRIGGERS and index not in replaced:
            group = graph.group(index)
            if group and not any(member in replaced for member in group.members):
                replaced.update(dict.fromkeys(group.members))
                replaced[group.members[-1]] = _as_one(step.op, group, whole.steps)
    steps = [replaced.get(index, step) for index, step in enumerate(whole.steps)]
    return _with_affine(replace(whole, steps=tuple(step for step in steps if step is not None)))


@dataclass(frozen=True, slots=True)
class _Group:
    source: str
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Graph:
    steps: Sequence[FlowStep]
    makers: Mapping[str, int]
    readers: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, steps: Sequence[FlowStep]) -> "_Graph":
        readers: dict[str, list[int]] = defaultdict(list)
        for index, step in enumerate(steps):
            for name in dict.fromkeys(step.inputs):
                readers[name].append(index)
        return cls(steps, {name: index for index, step in enumerate(steps) for name in step.outputs}, readers)

    def group(self, index: int) -> _Group | None:
        """Return the group around a telling operator, from the nearest value from which it closes."""
        sources = [self.steps[index].inputs[0]] if self.steps[index].inputs else []
        for _ in range(_FAR):
            maker = self.makers.get(sources[-1]) if sources else None
            if maker is None or self.steps[maker].kind not in _JOINING or not self.steps[maker].inputs:
                break
            sources.append(self.steps[maker].inputs[0])
        for source in sources:
            members = self._closure(source)
            if members and index in members:
                return _Group(source, members)
        return None

    def _closure(self, source: str) -> tuple[int, ...]:
        """Return the steps that compute one value from a source alone; empty if they leave more."""
        inside = {source}
        members: list[int] = []
        joined = False
        while len(members) < _MOST:
            following = [
                reader
                for name in inside
                for reader in self.readers.get(name, ())
                if reader not in members and self._joins(reader, inside)
            ]
            if not following:
                return ()
            step = min(following)
            members.append(step)
            joined = joined or len(set(self.steps[step].inputs)) > 1
            inside.update(self.steps[step].outputs)
            if joined and self._open(members, inside - {source}) == 1:
                return tuple(sorted([*members, *self._trailing(step)]))
        return ()

    def _joins(self, index: int, inside: set[str]) -> bool:
        step = self.steps[index]
        return (
            step.kind in _JOINING and step.largest_weight <= 1 and all(name in inside for name in step.inputs)
        )

    def _open(self, members: Sequence[int], inside: set[str]) -> int:
        """Return the number of values that steps outside read, or that nothing reads."""
        outside = 0
        for name in inside:
            readers = self.readers.get(name, ())
            outside += not readers or any(reader not in members for reader in readers)
        return outside

    def _trailing(self, index: int) -> tuple[int, ...]:
        """Return the plain factor that some exporters multiply last."""
        [out, *_] = self.steps[index].outputs
        readers = self.readers.get(out, ())
        if len(readers) != 1:
            return ()
        after = self.steps[readers[0]]
        plain = after.op in _SCALES and len(after.inputs) == 1 and after.largest_weight == 1
        return (readers[0],) if plain else ()


def _as_one(trigger: str, group: _Group, steps: Sequence[FlowStep]) -> FlowStep:
    last = steps[group.members[-1]]
    name = _TRIGGERS[trigger]
    kind = "norm" if name == "LayerNormalization" else "activation"
    return FlowStep(name, kind, (group.source,), last.outputs)


def _with_biases(flow: Dataflow) -> Dataflow:
    """Merge the bias that follows a product: a framework adds it in the same call."""
    readers: dict[str, list[int]] = defaultdict(list)
    for index, step in enumerate(flow.steps):
        for name in step.inputs:
            readers[name].append(index)
    steps: list[FlowStep | None] = list(flow.steps)
    for index, step in enumerate(flow.steps):
        following = readers.get(step.outputs[0], []) if step.kind == "matmul" and step.outputs else []
        if len(following) != 1:
            continue
        after = flow.steps[following[0]]
        if after.op in _ADDS and len(after.inputs) == 1 and after.largest_weight > 1:
            steps[index] = None
            steps[following[0]] = replace(step, outputs=after.outputs, weights=step.weights + after.weights)
    return replace(flow, steps=tuple(step for step in steps if step is not None))


def _with_affine(flow: Dataflow) -> Dataflow:
    """Merge the weights that exporters apply after a norm, each as a step of its own."""
    steps: list[FlowStep] = []
    origin: dict[str, int] = {}
    readers: dict[str, int] = defaultdict(int)
    for step in flow.steps:
        for name in step.inputs:
            readers[name] += 1
    for step in flow.steps:
        place = origin.get(step.inputs[0]) if len(step.inputs) == 1 else None
        affine = step.op in (*_ADDS, *_SCALES) and step.largest_weight > 1
        if place is not None and readers[step.inputs[0]] == 1 and (affine or step.strided):
            norm = steps[place]
            name = "GroupNormalization" if norm.op == "InstanceNormalization" and affine else norm.op
            steps[place] = replace(norm, op=name, outputs=step.outputs, weights=norm.weights + step.weights)
            origin[step.outputs[0]] = place
            continue
        if step.op in ("InstanceNormalization", "LayerNormalization") and step.outputs:
            origin[step.outputs[0]] = len(steps)
        steps.append(step)
    return replace(flow, steps=tuple(steps))


def _with_attention(flow: Dataflow) -> Dataflow:
    """Merge attention whose scale is on both operands: exporters write PyTorch's fused function so."""
    makers = {name: index for index, step in enumerate(flow.steps) for name in step.outputs}
    steps: list[FlowStep | None] = list(flow.steps)
    for index, step in enumerate(flow.steps):
        if step.kind == "attention" and len(step.inputs) >= 2:
            scaled = [_scale_before(flow.steps, makers, name) for name in step.inputs[:2]]
            second = _second_product(flow.steps, index)
            if None in scaled or second is None:
                continue
            query, key = (flow.steps[place].inputs[0] for place in scaled if place is not None)
            value = next(
                name for name in flow.steps[second].inputs if name not in _between(flow, index, second)
            )
            for place in (*(place for place in scaled if place is not None), *range(index, second)):
                if place in (index, *scaled) or _follows(flow, index, place):
                    steps[place] = None
            last = flow.steps[second]
            steps[second] = replace(
                last, op="FusedAttention", inputs=(query, key, value), macs=step.macs + last.macs
            )
    return replace(flow, steps=tuple(step for step in steps if step is not None))


def _scale_before(steps: Sequence[FlowStep], makers: Mapping[str, int], name: str) -> int | None:
    """Return the step that scales an operand by a plain number, behind views."""
    place = makers.get(name)
    for _ in range(_FAR):
        if place is None:
            return None
        step = steps[place]
        if step.op in _SCALES and len(step.inputs) == 1 and step.largest_weight <= 1:
            return place
        if not step.strided or not step.inputs:
            return None
        place = makers.get(step.inputs[0])
    return None


def _second_product(steps: Sequence[FlowStep], first: int) -> int | None:
    """Return the product that reads the softmax of the first one's scores."""
    names = set(steps[first].outputs)
    for index in range(first + 1, min(first + _MOST, len(steps))):
        step = steps[index]
        if not names.intersection(step.inputs):
            continue
        if step.kind == "attention":
            return index
        if step.kind not in ("activation", "elementwise"):
            return None
        names.update(step.outputs)
    return None


def _between(flow: Dataflow, first: int, second: int) -> set[str]:
    names = set(flow.steps[first].outputs)
    for step in flow.steps[first + 1 : second]:
        if names.intersection(step.inputs):
            names.update(step.outputs)
    return names


def _follows(flow: Dataflow, first: int, place: int) -> bool:
    """Say whether a step works on the scores."""
    return bool(_between(flow, first, place).intersection(flow.steps[place].inputs))
