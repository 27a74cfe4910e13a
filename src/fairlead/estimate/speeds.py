"""How much of its data sheet a device reaches, and the properties of runtimes: two tables, read once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, Final

from fairlead.compat import toml
from fairlead.units import parse_bytes

_NARROWING: Final = ("kind", "vendor", "families", "devices")
Rows = Sequence[Mapping[str, Any]]
"""The rows of `speeds.toml`."""


@dataclass(frozen=True, slots=True)
class DeviceSpeed:
    """A kind of device, as `speeds.toml` describes it; that file documents each figure."""

    conv: float
    product: float
    bytes: float
    depthwise: float
    light: float
    smooth: float
    weights: float
    kernel_conv_us: float
    kernel_us: float
    call_us: float
    ops_per_byte: float
    link: float
    on_chip: float
    busy: float
    spread: float
    runtimes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuntimeSpeed:
    """A runtime, as `runtimes.toml` describes it."""

    name: str
    title: str
    memory: tuple[float, ...]
    """Coefficients, in the order of `amounts.MEMORY`."""
    reads: tuple[str, ...] = ()
    casts: bool = False
    partial: bool = False
    needs: str = ""


@cache
def speed(kind: str, vendor: str, family: str, device: str = "") -> DeviceSpeed:
    """Return the figures of a device, by its kind, vendor, family and catalog id."""
    return speed_in(rows(), kind, vendor, family, device)


def speed_in(table: Rows, kind: str, vendor: str, family: str, device: str = "") -> DeviceSpeed:
    """Return the figures of a device in a table: every row that matches it, later rows over earlier ones."""
    figures: dict[str, Any] = {}
    for row in table:
        if _matches(row, kind, vendor, family, device):
            figures |= {name: value for name, value in row.items() if name not in _NARROWING}
    values = {field.name: figures[field.name] for field in fields(DeviceSpeed)}
    return DeviceSpeed(**{**values, "runtimes": tuple(values["runtimes"])})


def rows() -> Rows:
    """Return the rows of `speeds.toml`."""
    table: Rows = _table("speeds.toml")["speed"]
    return table


@cache
def runtimes() -> Mapping[str, RuntimeSpeed]:
    """Return every runtime that a device may be used through."""
    return {name: _runtime(name, row) for name, row in _table("runtimes.toml").items()}


def _runtime(name: str, row: Mapping[str, Any]) -> RuntimeSpeed:
    process, *rest = row["memory"]
    memory = (float(parse_bytes(process)), *map(float, rest))
    return RuntimeSpeed(
        name=name,
        title=row["title"],
        memory=memory,
        reads=tuple(row.get("reads", ())),
        casts=row.get("casts", False),
        partial=row.get("partial", False),
        needs=row.get("needs", ""),
    )


def _matches(row: Mapping[str, Any], kind: str, vendor: str, family: str, device: str) -> bool:
    return (
        row.get("kind", kind) == kind
        and row.get("vendor", vendor) == vendor
        and (family in row["families"] if "families" in row else True)
        and (device in row["devices"] if "devices" in row else True)
    )


@cache
def _table(name: str) -> Mapping[str, Any]:
    return toml.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
