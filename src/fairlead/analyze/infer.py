"""Infer the shape of every value, and inline functions, branches and loops into one list of steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fairlead.analyze import bounds, dtypes
from fairlead.analyze.bind import BoundDimensions
from fairlead.analyze.graph import (
    Attribute,
    Constant,
    Fact,
    Function,
    Graph,
    GraphNode,
    Model,
    Reference,
    Value,
)
from fairlead.analyze.names import printable
from fairlead.analyze.operators import look_up
from fairlead.analyze.order import sort_nodes
from fairlead.analyze.program import Notes, Program, Step
from fairlead.analyze.shapes.call import OperatorCall, Rule, UnknownShapeError
from fairlead.analyze.shapes.fold import fold_values
from fairlead.errors import AnalysisError

RULE_ERRORS: Final = (ArithmeticError, LookupError, TypeError, ValueError, UnknownShapeError)
"""Exceptions of a rule on inputs that make no sense."""
_BODY: Final = 4
"""The cost of inlining a body, in steps."""


@dataclass(slots=True)
class NameScope:
    """The names in scope of a graph or body."""

    prefix: str = ""
    """The prefix of its own names in the program."""
    parent: "NameScope | None" = None
    names: dict[str, str] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    attributes: Mapping[str, Attribute] | None = None
    """The attributes that the caller passes to a function."""
    depth: int = 0
    exact: bool = True

    def find(self, name: str) -> str:
        """Return the program's name for a name of this scope."""
        scope: NameScope | None = self
        while scope is not None:
            resolved = scope.names.get(name)
            if resolved is not None:
                return resolved
            scope = scope.parent
        raise AnalysisError(f"value {printable(name)!r} is read but never produced", "export the model again")


Control: TypeAlias = Callable[["ShapeInference", GraphNode, Sequence[str], NameScope], None]
"""Inlines a node with bodies."""


class ShapeInference:
    """One pass over a model."""

    def __init__(
        self, model: Model, bound: BoundDimensions, notes: Notes, control: Mapping[str, Control]
    ) -> None:
        self.model = model
        self.facts: dict[str, Fact] = {}
        self.steps: list[Step] = []
        self.notes = notes
        self._constants: dict[str, Constant] = {}
        self._bound = bound
        self._control = control
        self._bodies = 0
        self._steps_left = bounds.NODES
        self._fold_left = bounds.FOLDED

    def run(self) -> Program:
        """Return the program of the whole model."""
        graph, scope = self.model.graph, NameScope(values=self.model.graph.values)
        for name, value in graph.inputs.items():
            self.define(scope, name, Fact(value.dtype, self._bound.inputs[name]))
        self.graph(graph, scope)
        inputs = tuple(scope.find(name) for name in graph.inputs)
        outputs = tuple(scope.find(name) for name in graph.outputs)
        shown_as = dict(zip(outputs, graph.outputs, strict=True))
        return Program(tuple(self.steps), self.facts, self._constants, inputs, outputs, output_names=shown_as)

    def graph(self, graph: Graph, scope: NameScope) -> None:
        """Process the constants and nodes of a graph."""
        for name, constant in graph.constants.items():
            self.constant(scope, name, constant)
        for node in sort_nodes(graph.nodes):
            self._node(node, scope)

    def define(self, scope: NameScope, name: str, fact: Fact) -> str:
        """Give a value of a scope its name in the program."""
        key = scope.prefix + name if scope.prefix else name
        if key in self.facts:
            raise AnalysisError(f"value {printable(name)!r} is produced twice", "export the model again")
        if len(self.facts) >= bounds.VALUES_NAMED:
            raise AnalysisError(f"more than {bounds.VALUES_NAMED:,} values", "export the model again")
        if fact.elements > bounds.ELEMENTS or len(fact.dims or ()) > bounds.RANK:
            dims = printable(" x ".join(map(str, fact.dims or ())))
            raise AnalysisError(
                f"value {printable(name)!r} would be {dims}: no machine holds it",
                "is the model, or --shape, right?",
            )
        scope.names[name] = key
        self.facts[key] = fact
        return key

    def constant(self, scope: NameScope, name: str, constant: Constant) -> None:
        """Define a constant."""
        self._constants[self.define(scope, name, constant.fact)] = constant

    def body(
        self,
        graph: Graph,
        arguments: Sequence[str | Fact],
        scope: NameScope,
        label: str,
        *,
        exact: bool = True,
    ) -> list[str]:
        """Inline a body and return the names of its outputs. A fact as argument defines a new value."""
        if scope.depth >= bounds.DEPTH:
            raise AnalysisError(
                f"more than {bounds.DEPTH} nested bodies or calls at {printable(label)!r}",
                "export the model again",
            )
        self._bodies += 1
        self._spend(_BODY)
        prefix = f"{scope.prefix[-200:]}{label[-200:]}#{self._bodies}/"
        inner = NameScope(
            prefix, scope, {}, graph.values, scope.attributes, scope.depth + 1, scope.exact and exact
        )
        for formal, actual in zip(graph.inputs, arguments, strict=False):
            if isinstance(actual, Fact):
                self.define(inner, formal, actual)
            elif actual:
                inner.names[formal] = actual
        self.graph(graph, inner)
        return [inner.find(name) for name in graph.outputs]

    def _spend(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise AnalysisError(
                f"more than {bounds.NODES:,} operators once functions are inlined",
                "export the model again",
            )

    def step(
        self,
        node: GraphNode,
        scope: NameScope,
        kind: str,
        inputs: Sequence[str],
        results: Sequence[Fact],
        *,
        exact: bool,
    ) -> None:
        """Add a step and the facts of its outputs."""
        outputs = []
        for place, name in enumerate(node.outputs):
            if name:
                fact = results[place] if place < len(results) else Fact()
                outputs.append(self.define(scope, name, self._declared(scope, name, fact)))
        label = scope.prefix + (node.name or (node.outputs[0] if node.outputs else node.op))
        attributes = _resolve_references(node.attributes, scope)
        exact = exact and scope.exact
        self.steps.append(Step(label, node.op, kind, tuple(inputs), tuple(outputs), attributes, exact))

    def _node(self, node: GraphNode, scope: NameScope) -> None:
        self._spend(1)
        inputs = [scope.find(name) if name else "" for name in node.inputs]
        function = self.model.functions.get(node.op)
        if function is not None:
            self._call(function, node, inputs, scope)
        elif node.op in self._control:
            self._control[node.op](self, node, inputs, scope)
        elif node.op == "Constant":
            self._constant_node(node, scope)
        else:
            self._primitive(node, inputs, scope)

    def _call(self, function: Function, node: GraphNode, inputs: Sequence[str], scope: NameScope) -> None:
        attributes = {**function.defaults, **_resolve_references(node.attributes, scope)}
        outer = NameScope(scope.prefix, None, {}, {}, attributes, scope.depth, scope.exact)
        arguments = [name or Fact() for name in inputs]
        arguments += [Fact()] * (len(function.body.inputs) - len(arguments))
        outputs = self.body(function.body, arguments, outer, node.name or node.op)
        for name, actual in zip(node.outputs, outputs, strict=False):
            if name:
                scope.names[name] = actual

    def _constant_node(self, node: GraphNode, scope: NameScope) -> None:
        if not node.outputs or not node.outputs[0]:
            return
        for name, value in _resolve_references(node.attributes, scope).items():
            if isinstance(value, Constant):
                self.constant(scope, node.outputs[0], value)
                return
            if name in ("value_int", "value_ints", "value_float", "value_floats"):
                values = value if isinstance(value, tuple) else (value,)
                numbers = tuple(item for item in values if isinstance(item, int | float))
                dims = (len(numbers),) if name.endswith("s") else ()
                dtype = "int64" if "int" in name else "fp32"
                size = dtypes.size(len(numbers), dtype)
                self.constant(scope, node.outputs[0], Constant(dtype, dims, len(numbers), size, numbers))
                return
        self.define(scope, node.outputs[0], Fact("string", None))

    def _primitive(self, node: GraphNode, inputs: Sequence[str], scope: NameScope) -> None:
        entry = look_up(node.op)
        kind, rule = entry or ("other", None)
        args = [self.facts[name] if name else None for name in inputs]
        attributes = _resolve_references(node.attributes, scope)
        call = OperatorCall(node.op, args, attributes, len(node.outputs), self.model.opset)
        results = self._results(call, rule) if rule is not None else []
        if entry is None:
            description = "an unknown operator: its own work is not counted"
            self.notes.add(f"{printable(node.op)} is {description}")
        self.step(node, scope, _kind(kind, call), inputs, results, exact=entry is not None)

    def _results(self, call: OperatorCall, rule: Rule) -> list[Fact]:
        try:
            results = rule(call)
        except RULE_ERRORS:
            return []
        if any(dim is not None and dim < 0 for result in results for dim in result.dims or ()):
            return []
        if results and self._fold_left > 0 and results[0].elements <= bounds.VALUES and len(call.args) <= 64:
            self._fold_left -= results[0].elements * (len(call.args) + 1)
            try:
                return fold_values(call, results)
            except RULE_ERRORS:
                return results
        return results

    def _declared(self, scope: NameScope, name: str, fact: Fact) -> Fact:
        """Return a fact, completed by the file's own declaration where inference has nothing better."""
        if fact.known and fact.dtype != dtypes.UNKNOWN:
            return fact
        value = scope.values.get(name)
        if value is None:
            return fact
        dims, declared = fact.dims, self._bound.bound_dims(value)
        if dims is None:
            dims = declared
        elif declared is not None and len(declared) == len(dims):
            dims = tuple(there if here is None else here for here, there in zip(dims, declared, strict=True))
        return Fact(fact.dtype if fact.dtype != dtypes.UNKNOWN else value.dtype, dims, fact.values)


def _resolve_references(attributes: Mapping[str, Attribute], scope: NameScope) -> Mapping[str, Attribute]:
    """Return attributes with references replaced by the caller's attributes."""
    if scope.attributes is None:
        return attributes
    passed = scope.attributes
    resolved = {
        name: passed.get(value.name) if isinstance(value, Reference) else value
        for name, value in attributes.items()
    }
    return {name: value for name, value in resolved.items() if value is not None}


def _kind(kind: str, call: OperatorCall) -> str:
    """Return the kind of an operator, where that depends on its inputs."""
    if kind == "conv":
        place = 3 if call.op == "QLinearConv" else 1
        weights = call.args[place] if place < len(call.args) else None
        dims = weights.dims if weights is not None else None
        if call.integer("group", 1) > 1 and dims and len(dims) > 1 and dims[1] == 1:
            return "depthwise"
    return kind
