"""Kubernetes' quantities: `4Gi`, `500m`, `1e3`, read and counted as `k8s.io/apimachinery` does."""

import re
from dataclasses import dataclass, replace
from functools import total_ordering
from typing import Final

_TEXT: Final = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]{1,5})")
_FURTHEST: Final = 512
"""The largest exponent: Go takes up to 2147483647, and would work on such a number for hours."""
_LONGEST: Final = 256
"""Characters."""
_NANO: Final = -9
_INT64: Final = 2**63 - 1
_DIGITS: Final = 18
"""What an int64 holds of decimal digits in any case."""

FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC: Final = "unable to parse numeric part of quantity"
SUFFIX: Final = "unable to parse quantity's suffix"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount: `value` times ten to the power of `scale`, exactly."""

    value: int
    scale: int = 0
    small: bool = True
    """Go keeps it as an int64 and a scale; of what it keeps otherwise it never says that it is an integer."""
    summed: bool = False
    """It is a sum or a difference."""

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """Read a quantity; ValueError in the words of Kubernetes for what is none."""
        found = _TEXT.fullmatch(text) if 0 < len(text) <= _LONGEST else None
        if found is None:
            raise ValueError(FORMAT)
        sign, digits, fraction, suffix = found[1], found[2] or "0", found[3] or "", found[4]
        exponent, binary = _suffix(suffix)
        whole = -int(digits + fraction) if sign == "-" else int(digits + fraction)
        scale = -len(fraction)
        if binary:
            factor = 1 << exponent
            room = 15 - len(digits) - int(exponent * 3 / 10) - 1
            if not fraction and room >= 0:
                return cls(whole * factor)
            return _capped(whole * factor, scale)
        scale += exponent
        if _DIGITS - len(digits) - len(fraction) >= 0 and scale >= _NANO:
            return cls(whole, scale)
        return _rounded(whole, scale)

    def compare(self, other: "Quantity") -> int:
        """Return -1, 0 or 1."""
        low = min(self.scale, other.scale)
        mine, theirs = self.value * 10 ** (self.scale - low), other.value * 10 ** (other.scale - low)
        return int(mine > theirs) - int(mine < theirs)

    def plus(self, other: "Quantity", sign: int = 1) -> "Quantity":
        """Return the sum; with the sign -1, the difference."""
        amount = sign * other.value
        if self.small and other.small:
            if amount > _INT64 and self.value >= 0 and self.scale >= other.scale:
                amount = -amount  # the least int64 has no opposite: Go keeps it as it is
            if other.value == 0:
                return replace(self, summed=True)
            if self.value == 0:
                return Quantity(amount, other.scale, summed=True)
        low = min(self.scale, other.scale)
        total = self.value * 10 ** (self.scale - low) + amount * 10 ** (other.scale - low)
        return Quantity(total, low, self.small and other.small and abs(total) <= _INT64, summed=True)

    @property
    def integer(self) -> int | None:
        """The amount as an int64, where Kubernetes can tell without effort; else None."""
        if not self.small or self.scale < 0:
            return None
        whole = self.value * 10**self.scale
        return whole if abs(whole) <= _INT64 else None

    @property
    def approximate(self) -> float:
        """The nearest floating-point number, or infinity."""
        try:
            return self.value * 10.0**self.scale if self.scale else float(self.value)
        except OverflowError:
            return float("inf") if self.value > 0 else float("-inf")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __lt__(self, other: "Quantity") -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        value, scale = self.value, self.scale
        while value and value % 10 == 0:
            value, scale = value // 10, scale + 1
        return hash((value, scale if value else 0))


def _suffix(suffix: str) -> tuple[int, bool]:
    """Return the exponent, and whether it is one of two."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], False
    if suffix in _BINARY:
        return _BINARY[suffix], True
    found = _EXPONENT.fullmatch(suffix)
    if found is None or abs(int(found[1])) > _FURTHEST:
        raise ValueError(SUFFIX)
    return int(found[1]), False


def _rounded(value: int, scale: int) -> Quantity:
    """Return an amount without what is below a billionth, rounded away from zero."""
    if scale < _NANO:
        down, rest = divmod(abs(value), 10 ** (_NANO - scale))
        value, scale = (down + bool(rest)) * (1 if value > 0 else -1), _NANO
    return Quantity(value, scale, small=False)


def _capped(value: int, scale: int) -> Quantity:
    found = _rounded(value, scale)
    # Go caps the magnitude, and gives the sign back afterwards.
    most = Quantity(_INT64 if found.value > 0 else -_INT64, small=False)
    return most if abs(found.value) > _INT64 * 10 ** -min(0, found.scale) else found
