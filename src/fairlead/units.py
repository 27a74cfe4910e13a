"""Quantities with their units: parse what people write, print what they read."""

import re
from decimal import Decimal
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
_KUBERNETES: Final = re.compile(
    r"(?P<whole>[+-]?[0-9]{1,30})(\.(?P<rest>[0-9]{0,30}))?"
    r"((?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<power>[+-]?[0-9]{1,2}))?"
)
_DECIMAL: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_DURATIONS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class QuantityError(ValueError):
    """What was written is no quantity: what is wrong with it, and how to write one."""

    def __init__(self, fault: str, hint: str) -> None:
        super().__init__(f"{fault}; {hint}")
        self.fault = fault
        """What is wrong, for a caller that gives a hint of its own."""


def fault(error: ValueError) -> str:
    """Return what is wrong, without the hint that a quantity's error carries."""
    return error.fault if isinstance(error, QuantityError) else str(error)


def _split(text: str, what: str, example: str) -> tuple[float, str]:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise QuantityError(f"{text!r} is not {what}", f"write it like {example}")
    return float(found[1]), found[2]


def _scale(text: str, scales: dict[str, int], suffix: str, what: str, example: str) -> float:
    number, unit = _split(text, what, example)
    prefix = unit.removesuffix(suffix)
    if prefix not in scales or (suffix and unit and not unit.endswith(suffix)):
        raise QuantityError(f"{text!r} has no known unit for {what}", f"write it like {example}")
    return number * scales[prefix]


def parse_bytes(text: str) -> Bytes:
    """Read an amount of memory: `8MiB`, `4Gi`, `512MB`, `1024`."""
    bare = text.strip().removesuffix("B")
    scales = _BINARY if bare.endswith("i") else _DECIMAL
    return Bytes(round(_scale(bare, scales, "", "an amount of memory", "4GiB")))


def parse_quantity(text: str) -> int:
    """Read an amount as Kubernetes writes it: `2Gi`, `500m`, `1e3`; parts of one are rounded up."""
    found = _KUBERNETES.fullmatch(text.strip())
    if found is None:
        raise QuantityError(f"{text!r} is not an amount", "write it like 4Gi")
    suffix, rest = found["suffix"] or "", found["rest"] or ""
    number, power = int(found["whole"] + rest), int(found["power"] or 0) - len(rest)
    if suffix.endswith("i"):
        number *= 1024 ** ("KMGTPE".index(suffix[0]) + 1)
    else:
        power += 3 * "num kMGTPE".index(suffix or " ") - 9
    scale: int = 10 ** abs(power)
    return number * scale if power >= 0 else -(-number // scale)


def parse_bandwidth(text: str) -> BytesPerSecond:
    """Read a memory bandwidth: `25.6GB/s`."""
    return BytesPerSecond(_scale(text, _DECIMAL, "B/s", "a bandwidth", "25.6GB/s"))


def parse_bitrate(text: str) -> BitsPerSecond:
    """Read a link rate: `5Gb/s`."""
    return BitsPerSecond(_scale(text, _DECIMAL, "b/s", "a link rate", "5Gb/s"))


def parse_duration(text: str) -> Seconds:
    """Read a duration: `500ms`, `10s`, `5m`, `1h`; a bare number is seconds."""
    number, unit = _split(text, "a duration", "10s")
    if (unit or "s") not in _DURATIONS:
        raise QuantityError(f"{text!r} is not a duration", "write it like 10s, 5m or 1h")
    return Seconds(number * _DURATIONS[unit or "s"])


def format_bytes(amount: int) -> str:
    """Print an amount of memory in the largest binary unit that keeps it readable."""
    size = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_ops(rate: float) -> str:
    """Print operations per second as people quote them: `26 TOPS`, `472 GOPS`."""
    for scale, unit in ((1e15, "POPS"), (1e12, "TOPS"), (1e9, "GOPS"), (1e6, "MOPS")):
        if rate >= scale:
            return f"{rate / scale:.3g} {unit}" if rate / scale < 100 else f"{rate / scale:.0f} {unit}"
    return f"{rate:.0f} OPS"


def format_bitrate(rate: float) -> str:
    """Print a link rate: `5 Gb/s`."""
    number, unit = (rate / 1e9, "Gb/s") if rate >= 1e9 else (rate / 1e6, "Mb/s")
    return f"{format_number(number)} {unit}"


def format_number(number: float) -> str:
    """Print three digits, or all before the point, and no power of ten: `0.42`, `37.5`, `87,123`."""
    if abs(number) >= 999.5:  # three digits would round it to 1e+03
        return f"{number:,.0f}"
    return format(Decimal(f"{number:.3g}"), "f")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Print a number with its noun: `1 pod`, `3 pods`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
