"""The tree of an expression, as cel-go's parser builds it: macros are already expanded."""

from dataclasses import dataclass


class UInt(int):
    """An unsigned number: `1u`."""

    __slots__ = ()


@dataclass(eq=False, slots=True)
class Literal:
    """A number, a string, bytes, true, false or null."""

    at: int
    """The offset of the character that cel-go points to, as in every node."""
    value: bool | int | float | str | bytes | None


@dataclass(eq=False, slots=True)
class Ident:
    """A name."""

    at: int
    name: str


@dataclass(eq=False, slots=True)
class Select:
    """A field of a value; `test`: only whether the field exists, as in `has()`."""

    at: int
    operand: "Node"
    field: str
    test: bool = False


@dataclass(eq=False, slots=True)
class Call:
    """A call of a function, or of an operator by cel-go's name for it."""

    at: int
    function: str
    target: "Node | None"
    args: list["Node"]


@dataclass(eq=False, slots=True)
class ListNode:
    """A list; `optional` holds the indexes of elements with a `?`."""

    at: int
    items: list["Node"]
    optional: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class MapNode:
    """A map: its keys, values, and whether there is a `?` before the key."""

    at: int
    entries: list[tuple["Node", "Node", bool]]


@dataclass(eq=False, slots=True)
class StructNode:
    """A message literal of a named type."""

    at: int
    name: str
    fields: list[tuple[int, str, "Node", bool]]


@dataclass(eq=False, slots=True)
class Comprehension:
    """A loop over a list or a map that folds it into one value."""

    at: int
    over: "Node"
    var: str
    accu: str
    init: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"
    var2: str = ""
    """Empty: one variable."""


Node = Literal | Ident | Select | Call | ListNode | MapNode | StructNode | Comprehension


def is_plain_list(node: Node) -> bool:
    """Return whether a node is a list of literals, for which cel-go builds a hash set."""
    if not isinstance(node, ListNode) or node.optional:
        return False
    return all(isinstance(item, Literal) and not isinstance(item.value, bytes | None) for item in node.items)


def children(node: Node) -> list[Node]:
    """Return the nodes below a node."""
    match node:
        case Select(operand=operand):
            return [operand]
        case Call(target=target, args=args):
            return [*([target] if target is not None else []), *args]
        case ListNode(items=items):
            return list(items)
        case MapNode(entries=entries):
            return [part for key, value, _ in entries for part in (key, value)]
        case StructNode(fields=fields):
            return [value for _, _, value, _ in fields]
        case Comprehension():
            return [node.over, node.init, node.condition, node.step, node.result]
    return []
