"""Samples of an accelerator, in base units, and the running totals from which busy shares are computed."""

from dataclasses import dataclass

from fairlead.compat import StrEnum


class Metric(StrEnum):
    """A measured quantity; the value ends with the unit."""

    MEMORY_TOTAL = "memory_bytes"
    MEMORY_USED = "memory_used_bytes"
    MEMORY_FREE = "memory_free_bytes"
    BUSY = "busy_ratio"
    MEMORY_BUSY = "memory_busy_ratio"
    POWER = "power_watts"
    RAIL_POWER = "rail_watts"
    ENERGY = "energy_joules"
    """A total since the driver was loaded: it only grows."""
    TEMPERATURE = "temperature_celsius"
    TEMPERATURE_LIMIT = "temperature_limit_celsius"
    CLOCK = "clock_hertz"
    CLOCK_MIN = "clock_min_hertz"
    CLOCK_MAX = "clock_max_hertz"
    LINK = "link_bits_per_second"
    MEMORY_RESERVED = "memory_reserved_bytes"
    ECC_ERRORS = "ecc_errors_total"
    """Memory errors, by counter."""
    REMAPPED_ROWS = "remapped_rows_total"
    ROW_REMAP = "row_remap"
    """1 while a remapping is pending, or has failed."""
    RETIRED_PAGES = "retired_pages_total"
    RETIREMENT_PENDING = "page_retirement_pending"
    CLOCKS_EVENTS = "clocks_event_reasons"
    """Why the clocks are below their maximum: NVML's mask."""
    PCIE_REPLAYS = "pcie_replays_total"
    NVLINK_UP = "nvlink_up"
    NVLINK_ERRORS = "nvlink_errors_total"
    NVLINK_BYTES = "nvlink_bytes_total"
    XID = "last_xid"
    """The last XID that the driver reported; 0 before the first."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value, measured at one moment."""

    accelerator: str
    """The id of the accelerator."""
    metric: Metric
    value: float
    detail: str = ""
    """Which one of several: the sensor, the clock, the rail."""


@dataclass(frozen=True, slots=True)
class BusyCounter:
    """Two running totals; the busy share is the growth of the first divided by the growth of the second."""

    accelerator: str
    busy: float
    whole: float


def busy_share(before: BusyCounter, after: BusyCounter) -> float | None:
    """Return the busy share between two counts; None if no time passed or a counter was reset."""
    busy, whole = after.busy - before.busy, after.whole - before.whole
    if whole <= 0 or busy < 0:
        return None
    return min(1.0, busy / whole)
