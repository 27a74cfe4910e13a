"""Branches and loops: which branch runs, and how often a body runs, depends on the data.

Of a branch the heavier side is counted, of a loop one iteration; both are marked as not exact.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from fairlead.analyze.graph import Attribute, Dims, Fact, Graph, GraphNode
from fairlead.analyze.infer import Control, NameScope, ShapeInference
from fairlead.analyze.names import printable
from fairlead.analyze.program import Step
from fairlead.analyze.work import macs

_Branch: TypeAlias = tuple[list[str], list[Step]]


def _find_body(walk: ShapeInference, attribute: Attribute | None) -> Graph | None:
    """Return a body, given itself or by its number."""
    if isinstance(attribute, Graph):
        return attribute
    if isinstance(attribute, int) and 0 < attribute < len(walk.model.bodies):
        return walk.model.bodies[attribute]
    return None


def _without_body(walk: ShapeInference, node: GraphNode, inputs: Sequence[str], scope: NameScope) -> None:
    walk.notes.add(f"{printable(node.op)} {printable(node.name)!r} has no body: it is not counted")
    walk.step(node, scope, "control", inputs, [], exact=False)


def _if(walk: ShapeInference, node: GraphNode, inputs: Sequence[str], scope: NameScope) -> None:
    sides = [_find_body(walk, node.attributes.get(name)) for name in ("then_branch", "else_branch")]
    test = walk.facts[inputs[0]].values if inputs and inputs[0] else None
    if test:
        sides = [sides[0] if test[0] else sides[1]]
    arguments = list(inputs[1:])
    branches = [_inline_branch(walk, side, arguments, scope, node.name) for side in sides if side is not None]
    if not branches:
        return _without_body(walk, node, inputs, scope)
    branches.sort(key=lambda branch: -sum(macs(step, walk.facts) for step in branch[1]))
    outputs, steps = branches[0]
    walk.steps += steps
    spare = [name for _, lighter in branches[1:] for step in lighter for name in step.inputs if name]
    if not test:
        walk.notes.add(f"If {printable(node.name)!r} depends on the data: its heavier branch is counted")
    results = [
        _merge_facts([walk.facts[name] for name in alternatives])
        for alternatives in zip(*(branch[0] for branch in branches), strict=False)
    ]
    walk.step(node, scope, "control", [*inputs, *spare, *outputs], results, exact=bool(test))
    return None


def _merge_facts(facts: Sequence[Fact]) -> Fact:
    """Return the fact of a value that is one of several."""
    first, *others = facts
    if all(fact == first for fact in others):
        return first
    shapes = [fact.dims for fact in facts if fact.dims is not None]
    if len(shapes) < len(facts) or len({len(shape) for shape in shapes}) > 1:
        return Fact(first.dtype)
    columns = zip(*shapes, strict=True)
    return Fact(first.dtype, tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in columns))


def _inline_branch(
    walk: ShapeInference, graph: Graph, arguments: list[str], scope: NameScope, label: str
) -> _Branch:
    """Inline one side, without adding it to the program yet."""
    before = walk.steps
    walk.steps = []
    try:
        outputs = walk.body(graph, list(arguments), scope, f"{label}.{graph.name}")
        return outputs, walk.steps
    finally:
        walk.steps = before


def _varying_fact(walk: ShapeInference, name: str) -> Fact:
    """Return the fact of a value that every iteration of a loop changes."""
    fact = walk.facts.get(name) or Fact()
    return Fact(fact.dtype, fact.dims)


def _stacked(
    walk: ShapeInference, outputs: Sequence[str], carried: int, iterations: int | None
) -> list[Fact]:
    """Return the facts of a loop's results: values carried between iterations, then stacked values."""
    facts = [walk.facts[name] for name in outputs]
    return facts[:carried] + [
        Fact(fact.dtype, None if fact.dims is None else (iterations, *fact.dims)) for fact in facts[carried:]
    ]


def _loop(walk: ShapeInference, node: GraphNode, inputs: Sequence[str], scope: NameScope) -> None:
    graph = _find_body(walk, node.attributes.get("body"))
    if graph is None:
        return _without_body(walk, node, inputs, scope)
    walk.notes.add(
        f"Loop {printable(node.name)!r} runs as often as the data decides: one iteration is counted"
    )
    carried = [_varying_fact(walk, name) for name in inputs[2:]]
    arguments: list[str | Fact] = [Fact("int64", ()), Fact("bool", ()), *carried]
    outputs = walk.body(graph, arguments, scope, node.name, exact=False)[1:]
    results = _stacked(walk, outputs, len(carried), None)
    walk.step(node, scope, "control", [*inputs, *outputs], results, exact=False)
    return None


def _scan(walk: ShapeInference, node: GraphNode, inputs: Sequence[str], scope: NameScope) -> None:
    graph, count = _find_body(walk, node.attributes.get("body")), node.attributes.get("num_scan_inputs")
    if graph is None or not isinstance(count, int) or walk.model.opset < 9 or count > len(inputs):
        return _without_body(walk, node, inputs, scope)
    walk.notes.add(
        f"Scan {printable(node.name)!r} runs once for each member of a sequence: one iteration is counted"
    )
    states = [_varying_fact(walk, name) for name in inputs[: len(inputs) - count]]
    axes = node.attributes.get("scan_input_axes", ())
    length: int | None = None
    arguments: list[str | Fact] = list(states)
    for place, name in enumerate(inputs[len(states) :]):
        axis = axes[place] if isinstance(axes, tuple) and place < len(axes) else 0
        fact = _varying_fact(walk, name)
        dims: Dims | None = None
        if fact.dims:
            at = int(axis) % len(fact.dims)
            length, dims = fact.dims[at], (*fact.dims[:at], *fact.dims[at + 1 :])
        arguments.append(Fact(fact.dtype, dims))
    outputs = walk.body(graph, arguments, scope, node.name, exact=False)
    results = _stacked(walk, outputs, len(states), length)
    walk.step(node, scope, "control", [*inputs, *outputs], results, exact=False)
    return None


def _while(walk: ShapeInference, node: GraphNode, inputs: Sequence[str], scope: NameScope) -> None:
    graph = _find_body(walk, node.attributes.get("body"))
    if graph is None:
        return _without_body(walk, node, inputs, scope)
    walk.notes.add("WHILE runs as often as the data decides: one iteration is counted")
    arguments: list[str | Fact] = [_varying_fact(walk, name) for name in inputs]
    outputs = walk.body(graph, arguments, scope, node.name, exact=False)
    results = [walk.facts[name] for name in outputs]
    walk.step(node, scope, "control", [*inputs, *outputs], results, exact=False)
    return None


def _composite(walk: ShapeInference, node: GraphNode, inputs: Sequence[str], scope: NameScope) -> None:
    """Inline the decomposition of a composite."""
    graph = _find_body(walk, node.attributes.get("decomposition"))
    if graph is None:
        return _without_body(walk, node, inputs, scope)
    for name, actual in zip(node.outputs, walk.body(graph, list(inputs), scope, node.name), strict=False):
        scope.names[name] = actual
    return None


def _skip(walk: ShapeInference, node: GraphNode, inputs: Sequence[str], scope: NameScope) -> None:
    """Skip a node that runs once, when the model is loaded."""


CONTROL: Final[dict[str, Control]] = {
    "If": _if,
    "IF": _if,
    "Loop": _loop,
    "Scan": _scan,
    "WHILE": _while,
    "STABLEHLO_COMPOSITE": _composite,
    "CALL_ONCE": _skip,
}
