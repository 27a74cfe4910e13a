"""The text of footprints: how what was learned is kept across restarts of the scheduler."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final

from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.sizing.footprint import Footprint
from fairlead.units import Bytes

MOST_BYTES: Final = 900_000
"""The largest text: a ConfigMap holds a mebibyte."""


def footprints_text(footprints: Iterable[Footprint], most: int = MOST_BYTES) -> str:
    """Return the text of footprints in their order, as many as fit into this many bytes."""
    kept = list(footprints)
    text = FOOTPRINTS.encode(tuple(kept))
    while kept and len(text.encode()) > most:
        kept = kept[: int(len(kept) * min(0.95, most / len(text.encode())))]
        text = FOOTPRINTS.encode(tuple(kept))
    return text


def _encode(footprints: Iterable[Footprint]) -> dict[str, Any]:
    return {"footprints": [_row(each) for each in footprints]}


def _row(footprint: Footprint) -> dict[str, Any]:
    row = {name: getattr(footprint, name) for name in footprint.__slots__}
    return {name: value for name, value in row.items() if value is not None}


def _decode(body: Mapping[str, Any]) -> tuple[Footprint, ...]:
    return tuple(_footprint(row) for row in body["footprints"])


def _footprint(row: Mapping[str, Any]) -> Footprint:
    sizes = tuple(Bytes(_whole(size)) for size in row["sizes"])
    weights = tuple(_number(weight) for weight in row["weights"])
    if len(sizes) != len(weights) or list(sizes) != sorted(set(sizes)):
        raise ValueError("sizes and weights do not match")
    if type(row["key"]) is not str:
        raise ValueError(f"{row['key']!r} is not a key")
    return Footprint(
        row["key"],
        Bytes(_whole(row["least"])) if "least" in row else None,
        Bytes(_whole(row["full"])),
        _number(row["ramp"]),
        sizes,
        weights,
        _whole(row["runs"]),
        _whole(row["samples"]),
        _whole(row["surprises"]),
        _number(row["margin"]),
        _number(row["updated"]),
        Bytes(_whole(row["refused"])),
        Bytes(_whole(row["stated"])),
        Bytes(_whole(row["lowest"])),
    )


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not an amount")
    return value


def _number(value: object) -> float:
    if type(value) not in {int, float} or not isfinite(value) or value < 0:  # type: ignore[operator,arg-type]
        raise ValueError(f"{value!r} is not a number")
    return float(value)  # type: ignore[arg-type]


FOOTPRINTS: Final[VersionedFormat[tuple[Footprint, ...]]] = VersionedFormat(
    "footprints", JSON, {1: Codec(_encode, _decode)}
)
"""What the scheduler has learned of images and models, in a ConfigMap."""
