"""What Kubernetes checks of an expression beyond its types: literals that can only fail, mixed lists."""

from collections.abc import Iterator

from fairlead.cel.checker import Checker
from fairlead.cel.errors import CompileError, EvaluationError
from fairlead.cel.lexer import Source
from fairlead.cel.patterns import compiled
from fairlead.cel.syntax import Call, ListNode, Literal, MapNode, Node, children
from fairlead.cel.times import parse_duration, parse_timestamp
from fairlead.cel.types import Type, unwrapped


def faults(source: Source, checker: Checker, tree: Node) -> Iterator[CompileError]:
    """Yield what is wrong with the literals of an expression."""
    for node in _all(tree):
        match node:
            case Call():
                yield from _call(source, node)
            case ListNode(items=items, optional=optional):
                kinds = [_kind(checker, each, place in optional) for place, each in enumerate(items)]
                yield from _alike(source, items, kinds)
            case MapNode(entries=entries):
                keys, values = [key for key, _, _ in entries], [value for _, value, _ in entries]
                yield from _alike(source, keys, [checker.type_of(key) for key in keys])
                kinds = [_kind(checker, value, optional) for _, value, optional in entries]
                yield from _alike(source, values, kinds)


def _all(tree: Node) -> list[Node]:
    seen: dict[int, Node] = {}
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            waiting += children(node)
    return sorted(seen.values(), key=lambda node: node.at)


def _kind(checker: Checker, node: Node, optional: bool) -> Type:
    kind = checker.type_of(node)
    return unwrapped(kind)[0] if optional else kind


def _alike(source: Source, nodes: list[Node], kinds: list[Type]) -> Iterator[CompileError]:
    for node, kind in zip(nodes, kinds, strict=True):
        if kind != kinds[0]:
            yield source.error(node.at, f"expected type '{kinds[0]}' but found '{kind}'")


def _call(source: Source, node: Call) -> Iterator[CompileError]:
    literal = node.args[-1] if node.args else None
    if node.function in ("find", "findAll") and node.target is not None and node.args:
        literal = node.args[0]
    if not isinstance(literal, Literal) or type(literal.value) is not str:
        return
    try:
        match node.function:
            case "duration" if node.target is None:
                parse_duration(literal.value)
            case "timestamp" if node.target is None:
                parse_timestamp(literal.value)
            case "matches" | "find" | "findAll":
                compiled(literal.value)
    except (EvaluationError, ValueError):
        yield source.error(literal.at, f"invalid {node.function} argument")
