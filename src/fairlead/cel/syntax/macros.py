"""Macros: calls that the parser replaces by loops and conditions, as cel-go does."""

from collections.abc import Callable
from typing import Final

from fairlead.cel.syntax.lexer import Source
from fairlead.cel.syntax.tree import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select

ACCUMULATOR: Final = "@result"
UNUSED: Final = "#unused"
_OLD_ACCUMULATOR: Final = "__result__"
_Macro = Callable[[Source, Call], Node | None]


def expand(source: Source, call: Call) -> Node:
    """Return the expansion of a call; the call itself where it is no macro."""
    macro = _MACROS.get((call.function, len(call.args), call.target is not None))
    return (macro(source, call) if macro else None) or call


def _accu(at: int) -> Ident:
    return Ident(at, ACCUMULATOR)


def _has(source: Source, call: Call) -> Node:
    operand = call.args[0]
    if not isinstance(operand, Select) or operand.test:
        raise source.error(operand.at, "invalid argument to has() macro")
    return Select(call.at, operand.operand, operand.field, test=True)


def _variables(source: Source, call: Call, count: int, wrong: str) -> list[str]:
    names: list[str] = []
    for node in call.args[:count]:
        if not isinstance(node, Ident) or node.name.startswith("."):
            raise source.error(node.at, wrong)
        if node.name in names:
            raise source.error(node.at, f"duplicate variable name: {node.name}")
        if node.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
            raise source.error(node.at, "iteration variable overwrites accumulator variable")
        names.append(node.name)
    return names


def _loop(call: Call, names: list[str], init: Node, condition: Node, step: Node, result: Node) -> Node:
    assert call.target is not None
    second = names[1] if len(names) > 1 else ""
    return Comprehension(call.at, call.target, names[0], ACCUMULATOR, init, condition, step, result, second)


def _quantifier(kind: str, count: int) -> _Macro:
    def macro(source: Source, call: Call) -> Node:
        names = _variables(source, call, count, "argument must be a simple name")
        at, predicate = call.at, call.args[count]
        true = Literal(at, True)
        if kind == "one":
            more = Call(at, "_+_", None, [_accu(at), Literal(at, 1)])
            step = Call(at, "_?_:_", None, [predicate, more, _accu(at)])
            result = Call(at, "_==_", None, [_accu(at), Literal(at, 1)])
            return _loop(call, names, Literal(at, 0), true, step, result)
        accu: Node = _accu(at)
        going = accu if kind == "all" else Call(at, "!_", None, [accu])
        condition = Call(at, "@not_strictly_false", None, [going])
        step = Call(at, "_&&_" if kind == "all" else "_||_", None, [_accu(at), predicate])
        return _loop(call, names, Literal(at, kind == "all"), condition, step, _accu(at))

    return macro


def _collect(count: int, adds: str) -> _Macro:
    """Return a macro that folds into a list, or into a map by key or by entry."""

    def macro(source: Source, call: Call) -> Node:
        wrong = "argument is not an identifier" if count == 1 else "argument must be a simple name"
        names = _variables(source, call, count, wrong)
        at, rest = call.at, call.args[count:]
        init: Node = ListNode(at, []) if adds == "item" else MapNode(at, [])
        match adds:
            case "item":
                step = Call(at, "_+_", None, [_accu(at), ListNode(at, [rest[-1]])])
            case "value":
                step = Call(at, "cel.@mapInsert", None, [_accu(at), Ident(at, names[0]), rest[-1]])
            case _:
                step = Call(at, "cel.@mapInsert", None, [_accu(at), rest[-1]])
        if len(rest) == 2:
            step = Call(at, "_?_:_", None, [rest[0], step, _accu(at)])
        return _loop(call, names, init, Literal(at, True), step, _accu(at))

    return macro


def _filter(source: Source, call: Call) -> Node:
    names = _variables(source, call, 1, "argument is not an identifier")
    at = call.at
    step = Call(at, "_+_", None, [_accu(at), ListNode(at, [Ident(call.args[0].at, names[0])])])
    step = Call(at, "_?_:_", None, [call.args[1], step, _accu(at)])
    return _loop(call, names, ListNode(at, []), Literal(at, True), step, _accu(at))


def _bound(at: int, name: str, value: Node, result: Node) -> Node:
    never = Literal(at, False)
    return Comprehension(at, ListNode(at, []), UNUSED, name, value, never, Ident(at, name), result)


def _bind(source: Source, call: Call) -> Node | None:
    if not (isinstance(call.target, Ident) and call.target.name == "cel"):
        return None
    name, value, result = call.args
    if not isinstance(name, Ident):
        raise source.error(name.at, "cel.bind() variable names must be simple identifiers")
    return _bound(call.at, name.name, value, result)


def _opt_map(flat: bool) -> _Macro:
    def macro(source: Source, call: Call) -> Node:
        name, at = call.args[0], call.at
        assert call.target is not None
        if not isinstance(name, Ident):
            what = "optFlatMap()" if flat else "optMap()"
            raise source.error(name.at, f"{what} variable name must be a simple identifier")
        mapped = _bound(at, name.name, Call(at, "value", call.target, []), call.args[1])
        then = mapped if flat else Call(at, "optional.of", None, [mapped])
        has = Call(at, "hasValue", call.target, [])
        return Call(at, "_?_:_", None, [has, then, Call(at, "optional.none", None, [])])

    return macro


def _sort_by(source: Source, call: Call) -> Node:
    assert call.target is not None
    at, name = call.at, "@__sortBy_input__"
    keys = _collect(1, "item")(source, Call(at, "map", Ident(at, name), call.args))
    assert keys is not None
    return _bound(at, name, call.target, Call(at, "@sortByAssociatedKeys", Ident(at, name), [keys]))


_MACROS: Final[dict[tuple[str, int, bool], _Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier("all", 1),
    ("all", 3, True): _quantifier("all", 2),
    ("exists", 2, True): _quantifier("any", 1),
    ("exists", 3, True): _quantifier("any", 2),
    ("exists_one", 2, True): _quantifier("one", 1),
    ("exists_one", 3, True): _quantifier("one", 2),
    ("existsOne", 3, True): _quantifier("one", 2),
    ("map", 2, True): _collect(1, "item"),
    ("map", 3, True): _collect(1, "item"),
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _collect(2, "item"),
    ("transformList", 4, True): _collect(2, "item"),
    ("transformMap", 3, True): _collect(2, "value"),
    ("transformMap", 4, True): _collect(2, "value"),
    ("transformMapEntry", 3, True): _collect(2, "entry"),
    ("transformMapEntry", 4, True): _collect(2, "entry"),
    ("sortBy", 2, True): _sort_by,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map(flat=False),
    ("optFlatMap", 2, True): _opt_map(flat=True),
}
