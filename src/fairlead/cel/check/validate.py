"""What Kubernetes checks beyond the types of an expression: literals that can only fail, mixed lists."""

from collections.abc import Iterator
from typing import Any, Final

from fairlead.cel.check.checker import Checker
from fairlead.cel.check.types import Type, unwrapped
from fairlead.cel.errors import CompileError, EvaluationError
from fairlead.cel.evaluate.runtime import accepts
from fairlead.cel.evaluate.values import NO_OVERLOAD
from fairlead.cel.functions.all import TABLE
from fairlead.cel.functions.patterns import compile_pattern
from fairlead.cel.functions.texts import clauses
from fairlead.cel.syntax.lexer import Source
from fairlead.cel.syntax.tree import Call, ListNode, Literal, MapNode, Node, children

_CONVERSIONS: Final = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")
_ANY: Final = ("dyn", "error", "param")
_PLAIN: Final = ("int", "uint", "double", "bool", "string", "bytes")
_ALLOWED: Final = {
    "s": (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
        "durations, and timestamps",
        (
            "list",
            "map",
            "int",
            "uint",
            "double",
            "bool",
            "string",
            "timestamp",
            "bytes",
            "duration",
            "type",
            "null",
        ),
    ),
    "d": ("decimal clause can only be used on integers", ("int", "uint")),
    "f": ("fixed-point clause can only be used on doubles", ("double", "string")),
    "e": ("scientific clause can only be used on doubles", ("double", "string")),
    "b": ("only integers and bools can be formatted as binary", ("int", "uint", "bool")),
    "x": (
        "only integers, byte buffers, and strings can be formatted as hex",
        ("int", "uint", "string", "bytes"),
    ),
    "X": (
        "only integers, byte buffers, and strings can be formatted as hex",
        ("int", "uint", "string", "bytes"),
    ),
    "o": ("octal clause can only be used on integers", ("int", "uint")),
}
"""The types that a clause of `format` takes, and the error for any other type."""


def faults(source: Source, checker: Checker, tree: Node) -> Iterator[CompileError]:
    """Yield the faults in the literals of an expression."""
    nodes = _all([tree])
    formatted = _all([child for node in nodes if _formats(node) for child in children(node)])
    exempt = {id(node) for node in formatted}
    for node in nodes:
        match node:
            case Call():
                yield from _call(source, checker, node)
            case ListNode(items=items, optional=optional) if id(node) not in exempt:
                kinds = [_kind(checker, item, place in optional) for place, item in enumerate(items)]
                yield from _alike(source, items, kinds)
            case MapNode(entries=entries) if id(node) not in exempt:
                keys, values = [key for key, _, _ in entries], [value for _, value, _ in entries]
                yield from _alike(source, keys, [checker.type_of(key) for key in keys])
                kinds = [_kind(checker, value, optional) for _, value, optional in entries]
                yield from _alike(source, values, kinds)


def _all(trees: list[Node]) -> list[Node]:
    seen: dict[int, Node] = {}
    waiting = list(trees)
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            waiting += children(node)
    return sorted(seen.values(), key=lambda node: node.at)


def _formats(node: Node) -> bool:
    return isinstance(node, Call) and node.function == "format" and node.target is not None


def _kind(checker: Checker, node: Node, optional: bool) -> Type:
    kind = checker.type_of(node)
    return unwrapped(kind)[0] if optional else kind


def _alike(source: Source, nodes: list[Node], kinds: list[Type]) -> Iterator[CompileError]:
    for node, kind in zip(nodes, kinds, strict=True):
        if kind != kinds[0]:
            yield source.error(node.at, f"expected type '{kinds[0]}' but found '{kind}'")


def _call(source: Source, checker: Checker, node: Call) -> Iterator[CompileError]:
    if _formats(node):
        yield from _format(source, checker, node)
    elif node.target is None and node.function in _CONVERSIONS and len(node.args) == 1:
        yield from _conversion(source, node)
    elif node.function in ("matches", "find", "findAll") and node.args:
        pattern = node.args[0] if node.target is not None else node.args[-1]
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            try:
                compile_pattern(pattern.value)
            except ValueError:
                yield source.error(pattern.at, f"invalid {node.function} argument")


def _conversion(source: Source, node: Call) -> Iterator[CompileError]:
    """Yield a fault where a constant cannot be converted: no device could make it valid."""
    try:
        is_constant, value = _constant(node.args[0])
    except EvaluationError:
        return  # the fault of the conversion inside
    try:
        if is_constant:
            _converted(node.function, value)
    except EvaluationError as error:
        if node.function in ("duration", "timestamp") and isinstance(node.args[0], Literal):
            yield source.error(node.args[0].at, f"invalid {node.function} argument")
        else:
            yield source.error(node.at, str(error))


def _constant(node: Node) -> tuple[bool, Any]:
    """Return whether a node is a literal or a conversion of one, and its value."""
    if isinstance(node, Literal):
        return True, node.value
    if not (isinstance(node, Call) and node.target is None and node.function in _CONVERSIONS):
        return False, None
    is_constant, value = _constant(node.args[0]) if len(node.args) == 1 else (False, None)
    return is_constant, _converted(node.function, value) if is_constant else None


def _converted(function: str, value: Any) -> Any:
    for overload in TABLE.get(function):
        if not overload.member and overload.run is not None and accepts(overload.args[0], value):
            return overload.run(value)
    raise EvaluationError(NO_OVERLOAD)


def _format(source: Source, checker: Checker, node: Call) -> Iterator[CompileError]:
    """Yield the faults of a format whose text and arguments are both literals."""
    text, values = node.target, node.args[0]
    if not (isinstance(text, Literal) and isinstance(text.value, str) and isinstance(values, ListNode)):
        return
    try:
        letters = [letter for _, letter, _ in clauses(text.value) if letter]
    except EvaluationError as error:
        yield source.error(node.at, str(error))
        return
    if len(letters) > len(values.items):
        yield source.error(node.at, f"index {len(values.items)} out of range")
    elif len(letters) < len(values.items):
        counts = f"(expected {len(letters)}, got {len(values.items)})"
        yield source.error(node.at, f"too many arguments supplied to string.format {counts}")
    for letter, item in zip(letters, values.items, strict=False):
        kind = checker.type_of(item)
        message, allowed = _ALLOWED[letter]
        if kind.kind not in (*allowed, *_ANY):
            yield source.error(item.at, f"error during formatting: {message}, was given {kind}")
