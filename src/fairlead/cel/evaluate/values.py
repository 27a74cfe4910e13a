"""Values of CEL in Python, their kinds, equality and order."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cel.errors import CostError, EvaluationError
from fairlead.cel.functions.semver import SemanticVersion
from fairlead.cel.syntax.tree import UInt
from fairlead.units import Quantity

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
NO_OVERLOAD: Final = "no such overload"


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A timestamp: nanoseconds since 1970 in UTC."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    value: Any = None
    has_value: bool = False


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what `type(x)` returns."""

    name: str


NONE: Final = Optional()


def key_of(key: Any) -> tuple[str, Any]:
    """Return the lookup key of a map key: equal numbers are one key, and true is not 1."""
    kind = type(key)
    if kind is str:
        return ("s", key)
    if kind is bool:
        return ("b", key)
    if kind in (int, UInt, float):
        return ("n", int(key) if kind is not float or key.is_integer() else key)
    raise EvaluationError(f"unsupported key type: {kind_name(key)}")


class Map:
    """A map; `default` is the value of a missing key, as for the domains of a device."""

    __slots__ = ("_entries", "default")

    def __init__(self, entries: Iterable[tuple[Any, Any]] = (), default: "Map | None" = None) -> None:
        self._entries: dict[tuple[str, Any], tuple[Any, Any]] = {
            key_of(key): (key, value) for key, value in entries
        }
        self.default = default

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._entries.values())

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return keys and values."""
        return self._entries.values()

    def __contains__(self, key: Any) -> bool:
        return key_of(key) in self._entries

    def find(self, key: Any) -> Optional:
        """Return the value of a key, as an optional."""
        try:
            entry = self._entries.get(key_of(key))
        except EvaluationError:
            entry = None
        if entry is not None:
            return Optional(entry[1], has_value=True)
        return NONE if self.default is None else Optional(self.default, has_value=True)

    def inserted(self, key: Any, value: Any) -> "Map":
        """Return a map with one more entry."""
        if key in self:
            raise EvaluationError(f"insert failed: key {show(key)} already exists")
        new = Map()
        new._entries = {**self._entries, key_of(key): (key, value)}
        return new


EMPTY: Final = Map()


def domains(by_domain: Mapping[str, Mapping[str, Any]]) -> Map:
    """Return attributes or capacities by domain and name; an unknown domain is empty."""
    return Map(((name, Map(inner.items())) for name, inner in by_domain.items()), EMPTY)


_KINDS: Final[dict[type, str]] = {
    bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes",
    type(None): "null_type", tuple: "list", Map: "map", Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp", Optional: "optional_type", TypeValue: "type",
    Quantity: "kubernetes.Quantity", SemanticVersion: "kubernetes.Semver",
}  # fmt: skip


def kind_name(value: Any) -> str:
    """Return the name of a value's type."""
    return _KINDS.get(type(value)) or str(getattr(value, "kind_name", "object"))


def show(value: Any) -> str:
    """Return a key or a number as messages show it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class StepBudget:
    """The remaining steps of an evaluation inside calls: comparing elements, building strings."""

    __slots__ = ("left",)
    most: Final = 1_000_000

    def __init__(self) -> None:
        self.left = self.most

    def take(self, count: int) -> None:
        """Spend steps; CostError where none is left."""
        self.left -= count
        if self.left < 0:
            raise CostError


STEPS: Final = StepBudget()
"""The one budget of the process: each evaluation resets it."""


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal: numbers compare across types, other types never do."""
    kind, theirs = type(one), type(other)
    if kind in _NUMBERS and theirs in _NUMBERS:
        return bool(one == other) if float not in (kind, theirs) else float(one) == float(other)
    if kind is not theirs:
        return False
    if kind is tuple:
        STEPS.take(len(one))
        return len(one) == len(other) and all(map(_elements_equal, one, other))
    if kind is Map:
        STEPS.take(len(one))
        return len(one) == len(other) and all(
            (found := other.find(key)).has_value and _elements_equal(value, found.value)
            for key, value in one.items()
        )
    if kind is Optional:
        return one.has_value == other.has_value and (not one.has_value or equal(one.value, other.value))
    if kind is SemanticVersion:
        return bool(one.compare(other) == 0)
    return bool(one == other)


def _is_incomparable(one: Any, other: Any) -> bool:
    """Return whether `one == other` is an error: Kubernetes' own types cannot be compared with others.

    In Go a sum of quantities is a pointer, which no quantity recognises as its own type.
    """
    if one is None or other is None:
        return False
    if type(one) is type(other):
        return type(other) is Quantity and other.summed
    return "." in kind_name(one) and not kind_name(one).startswith("google.")


def _elements_equal(one: Any, other: Any) -> bool:
    """Return whether elements of lists and maps are alike: cel-go treats an error as no difference."""
    return _is_incomparable(one, other) or equal(one, other)


def equals(one: Any, other: Any) -> bool:
    """Return `one == other`."""
    if _is_incomparable(one, other):
        raise EvaluationError(NO_OVERLOAD)
    return equal(one, other)


def differs(one: Any, other: Any) -> bool:
    """Return `one != other`: true also where `==` is an error."""
    return _is_incomparable(one, other) or not equal(one, other)


_NUMBERS: Final = frozenset((int, UInt, float))
_ORDERED: Final = frozenset((bool, str, bytes, Duration, Timestamp))


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1; EvaluationError for types without an order."""
    kind, theirs = type(one), type(other)
    if kind in _NUMBERS and theirs in _NUMBERS:
        if math.isnan(one) or math.isnan(other):
            raise EvaluationError("NaN values cannot be ordered")
        if float in (kind, theirs):
            one, other = float(one), float(other)
        return int(one > other) - int(one < other)
    if kind is not theirs or kind not in _ORDERED:
        raise EvaluationError(NO_OVERLOAD)
    if kind in (Duration, Timestamp):
        one, other = one.nanos, other.nanos
    if kind is str:
        one, other = one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    return int(one > other) - int(one < other)


def as_int(value: int) -> int:
    """Return a number if it fits 64 bits."""
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError("integer overflow")
    return value


def as_uint(value: int) -> UInt:
    """Return an unsigned number if it fits 64 bits."""
    if not 0 <= value <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return UInt(value)


def size(value: Any) -> int:
    """Return the size of a value as costs count it: its length, or 1 without one."""
    kind = type(value)
    if kind in (str, bytes, tuple, Map):
        return len(value)
    if kind is Optional and value.has_value:
        return size(value.value)
    return int(getattr(value, "cost_size", 1))
