"""Quantities with their units: parse what people write, print what they read."""

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import total_ordering
from typing import Final, NewType

Bytes = NewType("Bytes", int)
BytesPerSecond = NewType("BytesPerSecond", float)
BitsPerSecond = NewType("BitsPerSecond", float)
Hertz = NewType("Hertz", float)
Ops = NewType("Ops", float)
"""Operations per second; a multiply-add counts as two."""
Watts = NewType("Watts", float)
Celsius = NewType("Celsius", float)
Seconds = NewType("Seconds", float)

_QUANTITY: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ/]*)\s*")
_BINARY: Final = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_DECIMAL: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_STARTS_WITH_NUMBER: Final = re.compile(r"[+-]?[0-9]")
"""Kubernetes reads a unit without a number as zero; here it is an error, for the number was forgotten."""
_LARGEST: Final = 10**30
_PART: Final = re.compile(r"([0-9]{1,40}(?:\.[0-9]{1,40})?)\s*%?")
_ONE: Final = 1000
"""Thousandths."""
_DURATIONS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_AMOUNT: Final = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_POWERS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SHIFTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]{1,5})")
_LARGEST_EXPONENT: Final = 512
"""The largest exponent: Go accepts up to 2147483647, and would compute such a number for hours."""
_LONGEST: Final = 256
"""Characters."""
_NANO: Final = -9
_INT64: Final = 2**63 - 1
_DIGITS: Final = 18
"""The decimal digits that always fit an int64."""

FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC: Final = "unable to parse numeric part of quantity"
SUFFIX: Final = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """A text is not a quantity: what is wrong with it, and how to write one."""

    def __init__(self, fault: str, hint: str) -> None:
        super().__init__(f"{fault}; {hint}")
        self.fault = fault
        """What is wrong, for a caller with a hint of its own."""


def fault(error: ValueError) -> str:
    """Return what is wrong, without the hint of a quantity's error."""
    return error.fault if isinstance(error, QuantityError) else str(error)


def _split(text: str, what: str, example: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not {what}", f"write it like {example}")
    return float(match[1]), match[2]


def _scale(text: str, scales: dict[str, int], suffix: str, what: str, example: str) -> float:
    number, unit = _split(text, what, example)
    prefix = unit.removesuffix(suffix)
    if prefix not in scales or (suffix and unit and not unit.endswith(suffix)):
        raise QuantityError(f"{text!r} has no known unit for {what}", f"write it like {example}")
    return number * scales[prefix]


def parse_bytes(text: str) -> Bytes:
    """Parse an amount of memory: `8MiB`, `4Gi`, `512MB`, `1024`."""
    bare = text.strip().removesuffix("B")
    scales = _BINARY if bare.endswith("i") else _DECIMAL
    return Bytes(round(_scale(bare, scales, "", "an amount of memory", "4GiB")))


def parse_exact_quantity(text: str) -> "Quantity":
    """Parse a Kubernetes quantity exactly: `2Gi`, `500m`, `1e3`."""
    bare = text.strip()
    try:
        if _STARTS_WITH_NUMBER.match(bare):
            return Quantity.parse(bare)
    except ValueError:
        pass
    raise QuantityError(f"{text[:40]!r} is not an amount", "write it like 4Gi")


def parse_quantity(text: str) -> int:
    """Parse a Kubernetes quantity as a whole number; fractions are rounded up."""
    amount = parse_exact_quantity(text).rounded_up()
    if abs(amount) > _LARGEST:
        raise QuantityError(f"{text[:40]!r} is larger than any real amount", "write it like 4Gi")
    return amount


def parse_bandwidth(text: str) -> BytesPerSecond:
    """Parse a memory bandwidth: `25.6GB/s`."""
    return BytesPerSecond(_scale(text, _DECIMAL, "B/s", "a bandwidth", "25.6GB/s"))


def parse_bitrate(text: str) -> BitsPerSecond:
    """Parse a link rate: `5Gb/s`."""
    return BitsPerSecond(_scale(text, _DECIMAL, "b/s", "a link rate", "5Gb/s"))


def parse_fraction(text: str) -> int:
    """Parse a fraction of one in thousandths: `0.25`, or `25%`."""
    match = _PART.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a fraction")
    thousandths = round(float(match[1]) * (10 if text.strip().endswith("%") else 1000))
    if thousandths > _ONE:
        raise ValueError(f"{text.strip()[:40]} is more than 1, or 100%")
    return thousandths


def parse_duration(text: str) -> Seconds:
    """Parse a duration: `500ms`, `10s`, `5m`, `1h`; a bare number is seconds."""
    number, unit = _split(text, "a duration", "10s")
    if (unit or "s") not in _DURATIONS:
        raise QuantityError(f"{text!r} is not a duration", "write it like 10s, 5m or 1h")
    return Seconds(number * _DURATIONS[unit or "s"])


def format_duration(seconds: float) -> str:
    """Format a duration in its one or two largest units, as people type it: `250ms`, `90s`, `2h`, `3h05m`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 120:
        return f"{format_number(seconds)}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if minutes else f"{hours}h"


def format_bytes(amount: int) -> str:
    """Format an amount of memory in the largest binary unit that keeps it readable."""
    size = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_quantity(amount: int) -> str:
    """Return an exact amount as a Kubernetes quantity, in the largest unit that divides it: `10Gi`."""
    for unit in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        if amount and amount % (1 << _SHIFTS[unit]) == 0:
            return f"{amount >> _SHIFTS[unit]}{unit}"
    return str(amount)


def format_ops(rate: float) -> str:
    """Format operations per second as people quote them: `26 TOPS`, `472 GOPS`."""
    for scale, unit in ((1e15, "POPS"), (1e12, "TOPS"), (1e9, "GOPS"), (1e6, "MOPS")):
        if rate >= scale:
            return f"{rate / scale:.3g} {unit}" if rate / scale < 100 else f"{rate / scale:.0f} {unit}"
    return f"{rate:.0f} OPS"


def format_bitrate(rate: float) -> str:
    """Format a link rate: `5 Gb/s`."""
    number, unit = (rate / 1e9, "Gb/s") if rate >= 1e9 else (rate / 1e6, "Mb/s")
    return f"{format_number(number)} {unit}"


def format_number(number: float) -> str:
    """Format three digits, or all before the point, and no power of ten: `0.42`, `37.5`, `87,123`."""
    if abs(number) >= 999.5:  # three digits would round it to 1e+03
        return f"{number:,.0f}"
    return format(Decimal(f"{number:.3g}"), "f")


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun: `1 pod`, `3 pods`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount: `value` times ten to the power of `scale`, exactly."""

    value: int
    scale: int = 0
    small: bool = True
    """Go stores it as an int64 and a scale; a quantity stored otherwise is never an integer to Go."""
    summed: bool = False
    """The quantity is a sum or a difference."""

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """Parse a quantity; the ValueError for any other text has Kubernetes' own message."""
        match = _AMOUNT.fullmatch(text) if 0 < len(text) <= _LONGEST else None
        if match is None:
            raise ValueError(FORMAT)
        sign, digits, fraction, suffix = match[1], match[2] or "0", match[3] or "", match[4]
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

    def rounded_up(self, scale: int = 0) -> int:
        """Return the amount in units of ten to the power of `scale`; fractions are rounded up."""
        power = self.scale - scale
        factor: int = 10 ** abs(power)
        return self.value * factor if power >= 0 else -(-self.value // factor)

    @property
    def integer(self) -> int | None:
        """The amount as an int64 if Kubernetes' AsInt64 returns one; else None."""
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
    """Return the exponent, and whether its base is two."""
    if suffix in _POWERS:
        return _POWERS[suffix], False
    if suffix in _SHIFTS:
        return _SHIFTS[suffix], True
    match = _EXPONENT.fullmatch(suffix)
    if match is None or abs(int(match[1])) > _LARGEST_EXPONENT:
        raise ValueError(SUFFIX)
    return int(match[1]), False


def _rounded(value: int, scale: int) -> Quantity:
    """Return an amount rounded to billionths, away from zero."""
    if scale < _NANO:
        down, rest = divmod(abs(value), 10 ** (_NANO - scale))
        value, scale = (down + bool(rest)) * (1 if value > 0 else -1), _NANO
    return Quantity(value, scale, small=False)


def _capped(value: int, scale: int) -> Quantity:
    rounded = _rounded(value, scale)
    # Go caps the magnitude, and restores the sign afterwards.
    most = Quantity(_INT64 if rounded.value > 0 else -_INT64, small=False)
    return most if abs(rounded.value) > _INT64 * 10 ** -min(0, rounded.scale) else rounded
