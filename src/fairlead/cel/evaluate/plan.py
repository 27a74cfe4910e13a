"""Turns a checked expression into functions that evaluate it, and count its cost as cel-go does."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from fairlead.cel.check.checker import Checker, qualified
from fairlead.cel.errors import EvaluationError
from fairlead.cel.evaluate.activation import Activation, Step
from fairlead.cel.evaluate.lookup import at_index, field_of, find_field, find_index, has_field
from fairlead.cel.evaluate.runtime import accepts, go_name
from fairlead.cel.evaluate.values import NO_OVERLOAD, Map, Optional, TypeValue, kind_name
from fairlead.cel.functions.operators import is_one_of
from fairlead.cel.functions.table import Overload
from fairlead.cel.syntax.macros import ACCUMULATOR, UNUSED
from fairlead.cel.syntax.tree import (
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    is_plain_list,
)

_LIST_COST, _MAP_COST = 10, 30


class ErrorValue:
    """The value of a variable whose evaluation failed: reading the variable raises the error."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


class Planner:
    """Plans the evaluation of one expression."""

    def __init__(self, checker: Checker) -> None:
        self.variables = 0
        self._checker = checker
        self._scopes: list[dict[str, int]] = []
        self._planned: dict[int, Step] = {}

    def plan(self, node: Node) -> Step:
        """Return the function that evaluates a node."""
        if id(node) not in self._planned:
            self._planned[id(node)] = self._plan(node)
        return self._planned[id(node)]

    def _plan(self, node: Node) -> Step:
        match node:
            case Literal(value=value):
                return lambda _: value
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
        raise EvaluationError(NO_OVERLOAD)

    def _slot(self) -> int:
        self.variables += 1
        return self.variables - 1

    def _ident(self, node: Ident) -> Step:
        plain = node.name.removeprefix(".")
        for scope in reversed(self._scopes) if plain == node.name else ():
            if plain in scope:
                return _variable(scope[plain])
        if id(node) in self._checker.names:
            return _type_name(plain)

        def device(activation: Activation) -> Any:
            activation.charge(1)
            return activation.device

        return device

    def _select(self, node: Select) -> Step:
        if id(node) in self._checker.names:
            return _type_name(qualified(node))
        operand, field = self.plan(node.operand), node.field
        if node.test:
            return lambda activation: has_field(operand(activation), field)

        def select(activation: Activation) -> Any:
            value = operand(activation)
            activation.charge(1)
            return field_of(value, field)

        return select

    def _call(self, node: Call) -> Step:
        name = self._checker.names.get(id(node), node.function)
        target = [] if node.target is None or id(node) in self._checker.names else [node.target]
        args = [self.plan(argument) for argument in (*target, *node.args)]
        if name == "@in" and is_plain_list(node.args[1]):
            return _plan_membership(args[0], args[1](_NO_ACTIVATION))
        special = _SPECIAL.get(name)
        if special is not None:
            return special(args)
        return _dispatch(name, self._checker.overloads[id(node)], args)

    def _list(self, node: ListNode) -> Step:
        items = [self.plan(item) for item in node.items]
        if not node.optional and all(isinstance(item, Literal) for item in node.items):
            constant = tuple(step(_NO_ACTIVATION) for step in items)
            return lambda _: constant

        def make(activation: Activation) -> Any:
            elements: list[Any] = []
            for place, step in enumerate(items):
                value = step(activation)
                if place in node.optional:
                    elements += _present(value)
                else:
                    elements.append(value)
            activation.charge(_LIST_COST)
            return tuple(elements)

        return make

    def _map(self, node: MapNode) -> Step:
        entries = [(self.plan(key), self.plan(value), optional) for key, value, optional in node.entries]

        def make(activation: Activation) -> Any:
            pairs: list[tuple[Any, Any]] = []
            for key, value, optional in entries:
                name, held = key(activation), value(activation)
                pairs += [(name, present) for present in (_present(held) if optional else [held])]
            activation.charge(_MAP_COST)
            return Map(pairs)

        return make

    def _comprehension(self, node: Comprehension) -> Step:
        over, init = self.plan(node.over), self.plan(node.init)
        accu, first, second = self._slot(), self._slot(), self._slot()
        self._scopes.append({node.accu: accu})
        self._scopes.append({node.var: first, **({node.var2: second} if node.var2 else {})})
        gather = self._list_loop(node)
        condition = self.plan(node.condition)
        step = self.plan(node.step)
        self._scopes.pop()
        result = self.plan(node.result)
        self._scopes.pop()
        if node.var == UNUSED:
            return _plan_bind(accu, init, result)
        if gather is not None:
            return _plan_gather(over, (first, second if node.var2 else -1), *gather)
        return _plan_fold(over, (accu, first, second if node.var2 else -1), init, (condition, step), result)

    def _list_loop(self, node: Comprehension) -> tuple[Step | None, Step] | None:
        """Return the filter and the element of a loop that builds a list, so that no step copies it."""
        if node.accu != ACCUMULATOR or not isinstance(node.init, ListNode):
            return None
        step, test = node.step, None
        if isinstance(step, Call) and step.function == "_?_:_":
            test, step = self.plan(step.args[0]), step.args[1]
        assert isinstance(step, Call)
        assert isinstance(step.args[1], ListNode)
        return test, self.plan(step.args[1].items[0])


_NO_ACTIVATION: Final = Activation(Map(), 0)


def _plan_membership(item: Step, constants: tuple[Any, ...]) -> Step:
    if not constants:
        return lambda _: False

    def look(activation: Activation) -> bool:
        value = item(activation)
        activation.charge(1)
        return is_one_of(value, constants)

    return look


def _present(value: Any) -> list[Any]:
    if not isinstance(value, Optional):
        raise EvaluationError(
            f"cannot initialize optional list element from non-optional value {kind_name(value)}"
        )
    return [value.value] if value.has_value else []


def _variable(slot: int) -> Step:
    def read(activation: Activation) -> Any:
        activation.charge(1)
        value = activation.variables[slot]
        if type(value) is ErrorValue:
            raise value.error
        return value

    return read


def _type_name(name: str) -> Step:
    value = TypeValue(name)
    return lambda _: value


def _value_or_error(step: Step, activation: Activation) -> Any:
    try:
        return step(activation)
    except EvaluationError as error:
        return ErrorValue(error)


def _plan_bind(slot: int, init: Step, result: Step) -> Step:
    def bind(activation: Activation) -> Any:
        activation.variables[slot] = _value_or_error(init, activation)
        return result(activation)

    return bind


def _pairs(over: Any, two: bool) -> Any:
    if type(over) is tuple:
        return enumerate(over) if two else ((item, None) for item in over)
    if type(over) is Map:
        return iter(over.items()) if two else ((key, None) for key in over)
    raise EvaluationError(f"got '{go_name(over)}', expected iterable type")


def _plan_gather(over: Step, slots: tuple[int, int], test: Step | None, item: Step) -> Step:
    first, second = slots

    def gather(activation: Activation) -> Any:
        elements: list[Any] = []
        for one, other in _pairs(over(activation), second >= 0):
            activation.variables[first] = one
            if second >= 0:
                activation.variables[second] = other
            activation.charge(1)
            if test is not None:
                wanted = test(activation)
                if type(wanted) is not bool:
                    raise EvaluationError(NO_OVERLOAD)
                if not wanted:
                    continue
            elements.append(item(activation))
            activation.charge(_LIST_COST + 1)
        return tuple(elements)

    return gather


def _plan_fold(
    over: Step, slots: tuple[int, int, int], init: Step, loop: tuple[Step, Step], result: Step
) -> Step:
    accu, first, second = slots
    condition, step = loop

    def fold(activation: Activation) -> Any:
        variables = activation.variables
        items = _pairs(over(activation), second >= 0)
        value = _value_or_error(init, activation)
        for one, other in items:
            variables[accu], variables[first] = value, one
            if second >= 0:
                variables[second] = other
            if condition(activation) is not True:
                break
            value = _value_or_error(step, activation)
        variables[accu] = value
        return result(activation)

    return fold


def _plan_logical(args: Sequence[Step], wins: bool) -> Step:
    def decide(activation: Activation) -> bool:
        fault: EvaluationError | None = None
        for arg in args:
            try:
                value = arg(activation)
            except EvaluationError as error:
                fault = fault or error
                continue
            if value is wins:
                return bool(wins)
            if type(value) is not bool:
                fault = fault or EvaluationError(NO_OVERLOAD)
        if fault is not None:
            raise fault
        return not wins

    return decide


def _plan_conditional(args: Sequence[Step]) -> Step:
    test, then, otherwise = args

    def choose(activation: Activation) -> Any:
        value = test(activation)
        if type(value) is not bool:
            raise EvaluationError(NO_OVERLOAD)
        return then(activation) if value else otherwise(activation)

    return choose


def _plan_not_strictly_false(args: Sequence[Step]) -> Step:
    def test(activation: Activation) -> bool:
        activation.charge(1)
        value: object = _value_or_error(args[0], activation)
        return value is not False

    return test


def _plan_lookup(find: Callable[[Any, Any], Any]) -> Callable[[Sequence[Step]], Step]:
    def plan(args: Sequence[Step]) -> Step:
        operand, key = args

        def look(activation: Activation) -> Any:
            value, wanted = operand(activation), key(activation)
            activation.charge(1)
            return find(value, wanted)

        return look

    return plan


def _plan_or(unwraps: bool) -> Callable[[Sequence[Step]], Step]:
    def plan(args: Sequence[Step]) -> Step:
        optional, otherwise = args

        def choose(activation: Activation) -> Any:
            value = optional(activation)
            if not isinstance(value, Optional):
                raise EvaluationError(NO_OVERLOAD)
            if not value.has_value:
                return otherwise(activation)
            return value.value if unwraps else value

        return choose

    return plan


_SPECIAL: Final[dict[str, Callable[[Sequence[Step]], Step]]] = {
    "_&&_": lambda args: _plan_logical(args, wins=False),
    "_||_": lambda args: _plan_logical(args, wins=True),
    "_?_:_": _plan_conditional,
    "@not_strictly_false": _plan_not_strictly_false,
    "_[_]": _plan_lookup(at_index),
    "_[?_]": _plan_lookup(find_index),
    "_?._": _plan_lookup(find_field),
    "or": _plan_or(unwraps=False),
    "orValue": _plan_or(unwraps=True),
}


def _dispatch(name: str, overloads: Sequence[Overload], args: Sequence[Step]) -> Step:
    generic = name.startswith(("_", "-", "!", "@in"))

    def call(activation: Activation) -> Any:
        values = [arg(activation) for arg in args]
        for overload in overloads:
            if generic or all(map(accepts, overload.args, values)):
                activation.charge(1 if overload.cost is None else overload.cost(*values))
                assert overload.run is not None
                return overload.run(*values)
        shown = f": {name}({', '.join(kind_name(value) for value in values)})" if len(overloads) > 1 else ""
        raise EvaluationError(f"{NO_OVERLOAD}{shown}")

    return call
