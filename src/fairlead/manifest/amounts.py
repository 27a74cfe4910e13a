"""Amounts as people and the API server write them: read exactly, or rejected with the field's name."""

from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Final, TypeVar

from fairlead.errors import ManifestError
from fairlead.units import (
    Bytes,
    Quantity,
    fault,
    parse_bytes,
    parse_duration,
    parse_exact_quantity,
    parse_fraction,
)

MIB: Final = 1 << 20
_LARGEST: Final = 2**62
"""An upper bound on every amount."""
_LONGEST: Final = 80
"""The most characters of an amount."""
T = TypeVar("T", int, float)
_exact = lru_cache(maxsize=4096)(parse_exact_quantity)


def milli(where: str, value: object) -> int:
    """Read an amount in thousandths, such as cores: `500m`, `1.5`, `2`."""
    return _read(where, value, lambda text: _exact(text).rounded_up(-3), "write it like 500m or 2")


def quantity(where: str, value: object) -> Bytes:
    """Read memory as Kubernetes writes it, with fractions of a byte rounded up: `64Gi`."""
    return Bytes(_read(where, value, lambda text: _exact(text).rounded_up(), "write it like 4Gi"))


def size(where: str, value: object) -> Bytes:
    """Read memory as people write it: `4GiB`, `512Mi`, `2GB`; a bare number is bytes."""
    return Bytes(_read(where, value, parse_bytes, "write it like 4GiB"))


def device_memory(where: str, value: object) -> Bytes:
    """Read memory of an accelerator: at least 1 MiB, so that `4` is not read as four bytes."""
    memory = size(where, value)
    if memory < MIB:
        raise ManifestError(f"{where}: {value} is less than 1 MiB", "write it like 4GiB, or leave it out")
    return memory


def whole(where: str, value: object, most: int = _LARGEST) -> int:
    """Read a whole number: `3`, `"3"`, `1k`; a fraction is rejected."""

    def parse_exact(text: str) -> int:
        number = _exact(text)
        if number != Quantity(rounded := number.rounded_up()):
            raise ValueError(f"{text!r} is not a whole number")
        return rounded

    return _read(where, value, parse_exact, "write a whole number", most)


def mebibytes(where: str, value: object) -> Bytes:
    """Read a whole number of MiB."""
    return Bytes(_read(where, whole(where, value), lambda text: MIB * int(text), "write a whole number"))


def seconds(where: str, value: object) -> float:
    """Read a duration: `20ms`, `0.5s`; a bare number is seconds."""
    return _read(where, value, parse_duration, "write it like 20ms", 1e9)


def fraction(where: str, value: object) -> int:
    """Read a fraction of one in thousandths: `0.25`, or `25%`."""
    return _read(where, value, parse_fraction, "write it like 0.25 or 25%")


def _read(where: str, value: object, parse: Callable[[str], T], hint: str, most: float = _LARGEST) -> T:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ManifestError(f"{where}: {value!r} is not an amount", hint)
    if isinstance(value, float) and not isfinite(value):
        raise ManifestError(f"{where}: {value} is not an amount", hint)
    text = f"{value:.9f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    if len(text) > _LONGEST:
        raise ManifestError(f"{where}: a string of {len(text)} characters is not an amount", hint)
    if text.lstrip().startswith("-"):
        raise ManifestError(f"{where}: {text} is negative", hint)
    try:
        amount = parse(text)
    except ValueError as error:
        raise ManifestError(f"{where}: {fault(error)}", hint) from None
    if amount > most:
        limit = "anything can have" if most == _LARGEST else f"{most:.0f}"
        raise ManifestError(f"{where}: {text[:40]} is more than {limit}", hint)
    return amount
