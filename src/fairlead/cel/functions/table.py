"""The table of functions: each overload with its types, its implementation and its cost."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cel.check.types import Type, read_type

Cost = Callable[..., int]
"""The cost by the arguments; charged before the call."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One overload of a function."""

    name: str
    member: bool
    """Called on a value: `x.f()`; the value is the first argument."""
    args: tuple[Type, ...]
    result: Type
    run: Callable[..., Any] | None = None
    """None: the planner implements it."""
    cost: Cost | None = None
    """None: 1."""


def overload(signature: str, run: Callable[..., Any] | None = None, cost: Cost | None = None) -> Overload:
    """Read a line of a table: `string.startsWith(string) bool`, `size(list(A)) int`."""
    head, _, result = signature.rpartition(" ")
    left, arguments = _head(head)
    receiver, member, name = "", False, left
    if arguments is None:
        raise ValueError(signature)
    if left.startswith("."):
        # A member function: `.list(A).name`.
        receiver, _, name = left[1:].rpartition(".")
        member = True
    types = ([receiver] if member else []) + _parts(arguments)
    return Overload(name, member, tuple(read_type(type_) for type_ in types), read_type(result), run, cost)


def _head(head: str) -> tuple[str, str | None]:
    """Return the text before the last brackets, and the text inside them."""
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(head[at], 0)
        if depth == 0:
            return head[:at], head[at + 1 : -1]
    return head, None


def _parts(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text + ","):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in parts if part]


class FunctionTable:
    """Functions by name."""

    def __init__(self, overloads: Iterable[Overload]) -> None:
        self._by_name: dict[str, list[Overload]] = {}
        for entry in overloads:
            self._by_name.setdefault(entry.name, []).append(entry)

    def get(self, name: str) -> list[Overload]:
        """Return every overload of a name; empty where there is no such function."""
        return self._by_name.get(name, [])


COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
