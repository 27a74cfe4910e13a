"""How much of its data sheet a device reaches while it trains: `training.toml`, read once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, Final

from fairlead.compat import toml
from fairlead.units import Bytes, Ops, parse_bytes

_NARROWING: Final = ("kind", "vendor", "families")
_SIZES: Final = ("held", "context")
TRAINING_KINDS: Final = ("gpu", "cpu")
"""The kinds of device that frameworks train on."""
_CPU_PER_BYTE: Final = 20.0
_GPU_PER_BYTE: Final = 40.0
"""Where the catalog has no bandwidth: the peak in its widest use, over this."""


@dataclass(frozen=True, slots=True)
class TrainingSpeed:
    """A kind of device, as `training.toml` describes it; that file documents each figure."""

    conv: float
    conv_half: float
    product: float
    bytes: float
    depthwise: float
    light: float
    smooth: float
    weights: float
    kernel_conv_us: float
    kernel_us: float
    host_us: float
    call_us: float
    held: Bytes
    context: Bytes
    busy: float
    spread: float


@cache
def training_speed(kind: str, vendor: str, family: str) -> TrainingSpeed:
    """Return the figures of a device: every row that matches it, where later rows override earlier ones."""
    figures: dict[str, Any] = {}
    for row in _rows():
        if _matches(row, kind, vendor, family):
            figures |= {name: value for name, value in row.items() if name not in _NARROWING}
    figures |= {name: parse_bytes(figures[name]) for name in _SIZES}
    return TrainingSpeed(**{field.name: figures[field.name] for field in fields(TrainingSpeed)})


def usual_bandwidth(kind: str, rates: Mapping[str, Ops]) -> float:
    """Return the bytes per second of a device whose bandwidth the catalog lacks, by its peak."""
    return max(rates.values(), default=Ops(1e12)) / (_CPU_PER_BYTE if kind == "cpu" else _GPU_PER_BYTE)


def _matches(row: Mapping[str, Any], kind: str, vendor: str, family: str) -> bool:
    return (
        row.get("kind", kind) == kind
        and row.get("vendor", vendor) == vendor
        and (family in row["families"] if "families" in row else True)
    )


@cache
def _rows() -> Sequence[Mapping[str, Any]]:
    text = files(__package__).joinpath("training.toml").read_text(encoding="utf-8")
    rows: Sequence[Mapping[str, Any]] = toml.loads(text)["training"]
    return rows
