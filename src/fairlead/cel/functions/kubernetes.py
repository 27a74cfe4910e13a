"""Kubernetes' own functions: quantities and semantic versions."""

from typing import Any, Final

from fairlead.cel.errors import EvaluationError
from fairlead.cel.functions.operators import traversal_cost
from fairlead.cel.functions.semver import SemanticVersion
from fairlead.cel.functions.table import Overload, overload
from fairlead.units import Quantity


def _quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _integer(value: Quantity) -> int:
    if value.integer is None:
        raise EvaluationError("cannot convert value to integer")
    return value.integer


def normalized(text: str) -> str:
    """Return `v1.2` as `1.2.0`; ValueError where a short version has more than numbers."""
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[at] = bare if bare[:1] and bare[0] in "0123456789" else f"0{bare}"
    if len(parts) < 3:
        if any(sign in parts[-1] for sign in "+-"):
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _semver(text: str, tolerant: bool = False) -> SemanticVersion:
    try:
        return SemanticVersion.parse(normalized(text) if tolerant else text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_semver(text: str, tolerant: bool = False) -> bool:
    try:
        SemanticVersion.parse(normalized(text) if tolerant else text)
    except ValueError:
        return False
    return True


def _signed(number: int) -> int:
    # Go casts a uint64 to an int64.
    return number - 2**64 if number >= 2**63 else number


def _length_cost(text: str, *_: Any) -> int:
    return traversal_cost(len(text))


OVERLOADS: Final[list[Overload]] = [
    overload("quantity(string) quantity", _quantity, _length_cost),
    overload("isQuantity(string) bool", _is_quantity, _length_cost),
    overload("sign(quantity) int", lambda value: (value.value > 0) - (value.value < 0)),
    overload(".quantity.isGreaterThan(quantity) bool", lambda one, other: one.compare(other) > 0),
    overload(".quantity.isLessThan(quantity) bool", lambda one, other: one.compare(other) < 0),
    overload(".quantity.compareTo(quantity) int", lambda one, other: one.compare(other)),
    overload(".quantity.asApproximateFloat() double", lambda value: value.approximate),
    overload(".quantity.asInteger() int", _integer),
    overload(".quantity.isInteger() bool", lambda value: value.integer is not None),
    overload(".quantity.add(quantity) quantity", lambda one, other: one.plus(other)),
    overload(".quantity.add(int) quantity", lambda one, number: one.plus(Quantity(number))),
    overload(".quantity.sub(quantity) quantity", lambda one, other: one.plus(other, -1)),
    overload(".quantity.sub(int) quantity", lambda one, number: one.plus(Quantity(number), -1)),
    overload("semver(string) semver", _semver, _length_cost),
    overload("semver(string,bool) semver", _semver, _length_cost),
    overload("isSemver(string) bool", _is_semver, _length_cost),
    overload("isSemver(string,bool) bool", _is_semver, _length_cost),
    overload(".semver.isGreaterThan(semver) bool", lambda one, other: one.compare(other) > 0),
    overload(".semver.isLessThan(semver) bool", lambda one, other: one.compare(other) < 0),
    overload(".semver.compareTo(semver) int", lambda one, other: one.compare(other)),
    overload(".semver.major() int", lambda value: _signed(value.major)),
    overload(".semver.minor() int", lambda value: _signed(value.minor)),
    overload(".semver.patch() int", lambda value: _signed(value.patch)),
]
