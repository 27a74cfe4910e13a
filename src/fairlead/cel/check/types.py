"""Types of expressions, and when one is assignable to another, as in cel-go's checker."""

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from fairlead.cel.errors import CompileError

_HEAVIEST: Final = 2000
"""The most parts of one type."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type: `int`, `list(string)`, a type with a name, or an unknown one (`param`)."""

    kind: str
    name: str = ""
    params: tuple["Type", ...] = ()
    weight: int = field(default=1, init=False, compare=False)

    def __post_init__(self) -> None:
        # A map from a type to itself doubles with every step: without a limit it grows without end.
        weight = 1 + sum(param.weight for param in self.params)
        if weight > _HEAVIEST:
            raise CompileError(1, 1, "the type of the expression is too large")
        object.__setattr__(self, "weight", weight)

    def __str__(self) -> str:
        match self.kind:
            case "error":
                return "!error!"
            case "list" | "map" | "type":
                inner = ", ".join(str(param) for param in self.params)
                return f"{self.kind}({inner})" if inner else self.kind
            case "opaque":
                return f"{self.name}({', '.join(str(param) for param in self.params)})"
        return self.name or self.kind


BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null")
DYN, ERROR = Type("dyn"), Type("error")
DURATION, TIMESTAMP = Type("duration"), Type("timestamp")
QUANTITY, SEMVER = Type("struct", "kubernetes.Quantity"), Type("struct", "kubernetes.Semver")
IP, CIDR = Type("struct", "net.IP"), Type("struct", "net.CIDR")
URL, FORMAT = Type("struct", "kubernetes.URL"), Type("struct", "kubernetes.NamedFormat")
DEVICE = Type("struct", "kubernetes.DRADevice")
_NAMED: Final = {
    **{str(kind): kind for kind in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DYN, DURATION, TIMESTAMP)},
    "quantity": QUANTITY, "semver": SEMVER, "ip": IP, "cidr": CIDR, "url": URL, "format": FORMAT,
}  # fmt: skip
_NULLABLE: Final = ("opaque", "struct", "duration", "timestamp")
_SPLIT: Final = re.compile(r"\w+|[(),]")


def list_of(item: Type) -> Type:
    """Return the type of a list."""
    return Type("list", "", (item,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of a map."""
    return Type("map", "", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of a value that may be missing."""
    return Type("opaque", "optional_type", (value,))


def type_of(value: Type) -> Type:
    """Return the type of a type."""
    return Type("type", "", (value,))


@cache
def read_type(text: str) -> Type:
    """Read a type as the function tables write it: `map(A,optional(int))`; one capital is any type."""
    words = _SPLIT.findall(text)
    return _read(words)


def _read(words: list[str]) -> Type:
    word = words.pop(0)
    params: list[Type] = []
    if words and words[0] == "(":
        words.pop(0)
        while words[0] != ")":
            params.append(_read(words))
            if words[0] == ",":
                words.pop(0)
        words.pop(0)
    if word == "optional":
        return optional_of(params[0])
    if word in ("list", "map", "type"):
        return Type(word, "", tuple(params))
    return Type("param", word) if len(word) == 1 else _NAMED[word]


def unwrapped(type_: Type) -> tuple[Type, bool]:
    """Return the type inside an optional, and whether the type is an optional."""
    if type_.kind == "opaque" and type_.name == "optional_type":
        return type_.params[0], True
    return type_, False


class Bindings:
    """The types that type parameters were bound to."""

    def __init__(self) -> None:
        self._known: dict[Type, Type] = {}
        self._count = 0

    def fresh(self) -> Type:
        """Return a new type parameter."""
        self._count += 1
        return Type("param", f"_var{self._count - 1}")

    def instance(self, signature: tuple[Type, ...]) -> tuple[Type, ...]:
        """Return a function's types with fresh type parameters."""
        own: dict[Type, Type] = {}
        return tuple(self._renamed(type_, own) for type_ in signature)

    def _renamed(self, type_: Type, own: dict[Type, Type]) -> Type:
        if type_.kind == "param":
            if type_ not in own:
                own[type_] = self.fresh()
            return own[type_]
        if not type_.params:
            return type_
        return Type(type_.kind, type_.name, tuple(self._renamed(param, own) for param in type_.params))

    def assign(self, given: tuple[Type, ...], wanted: tuple[Type, ...]) -> bool:
        """Return whether the types are assignable to the others; if so, keep the bindings that follow."""
        before = dict(self._known)
        if len(given) == len(wanted) and all(map(self._assignable, given, wanted)):
            return True
        self._known = before
        return False

    def final(self, type_: Type, *, free_to_dyn: bool = False) -> Type:
        """Return a type with its parameters replaced by their bindings."""
        if type_ in self._known:
            return self.final(self._known[type_], free_to_dyn=free_to_dyn)
        if type_.kind == "param" and free_to_dyn:
            return DYN
        if not type_.params:
            return type_
        params = tuple(self.final(param, free_to_dyn=free_to_dyn) for param in type_.params)
        return Type(type_.kind, type_.name, params)

    def _assignable(self, one: Type, other: Type) -> bool:
        if other.kind == "param":
            valid, known = self._bind(one, other)
            if valid or known:
                return valid
        if one.kind == "param":
            return self._bind(other, one)[0]
        if one.kind in ("dyn", "error") or other.kind in ("dyn", "error"):
            return True
        if "null" in (one.kind, other.kind):
            kinds = {one.kind, other.kind} - {"null"}
            return not kinds or kinds.pop() in _NULLABLE
        if one.kind == "type":
            return other.kind == "type"
        same = (one.kind, one.name, len(one.params)) == (other.kind, other.name, len(other.params))
        return same and all(map(self._assignable, one.params, other.params))

    def _bind(self, one: Type, param: Type) -> tuple[bool, bool]:
        """Bind a type parameter to `one`; return whether that is valid, and whether it was bound before."""
        if one == param:
            return True, True
        known = self._known.get(param)
        if known is not None:
            if one == known:
                return True, True
            if not self._assignable(one, known):
                return False, True
            general = most_general(one, known)
            if self._free_of(param, general):
                self._known[param] = general
            return True, True
        if self._free_of(param, one):
            self._known[param] = one
            return True, False
        return False, False

    def _free_of(self, param: Type, within: Type) -> bool:
        if param == within:
            return False
        if within.kind == "param":
            known = self._known.get(within)
            return known is None or self._free_of(param, known)
        return all(self._free_of(param, inner) for inner in within.params)


def most_general(one: Type, other: Type) -> Type:
    """Return the more general of two assignable types."""
    return one if _less_specific(one, other) else other


def _less_specific(one: Type, other: Type) -> bool:
    if one.kind in ("dyn", "param"):
        return True
    if other.kind in ("dyn", "param") or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.name != other.name or len(one.params) != len(other.params):
        return False
    return all(map(_less_specific, one.params, other.params))
