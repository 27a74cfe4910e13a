"""DCGM's fields under their old and their new names: one table, used in both directions.

dcgm-exporter 4.9 (with DCGM 4.7) renamed 23 of its default and profiling fields and gave eleven of them base
units. The names come from its release notes, from DCGM's field identifiers and from DCGM's dcgm_fields.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.compat import StrEnum

_DEV, _PROF = "DCGM_FI_DEV_", "DCGM_FI_PROF_"


class Names(StrEnum):
    """Which of the two names a page carries."""

    OLD = "old"
    NEW = "new"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its names before and since dcgm-exporter 4.9, and its unit under each."""

    old: str
    new: str
    kind: str
    """Its Prometheus type: gauge or counter."""
    text: str
    old_unit: str = ""
    new_unit: str = ""
    scale: float = 1.0
    """The old value for each 1 of the new one."""

    def help(self, name: str) -> str:
        """Return the help text of the field under one of its names."""
        unit = self.old_unit if name == self.old else self.new_unit
        text = f"{self.text} (in {unit})." if unit else f"{self.text}."
        if self.old == self.new:
            return text
        if self not in RENAMED:
            return f"{text} Older name of {self.new}." if name == self.old else text
        if name == self.old:
            return f"{text} Name and unit of dcgm-exporter up to 4.8; {self.new} since 4.9."
        return f"{text} Name and unit of dcgm-exporter since 4.9; {self.old} up to 4.8."


def _clock(old: str, new: str, text: str) -> Field:
    return Field(f"{_DEV}{old}", f"{_DEV}{new}", "gauge", text, "MHz", "Hz", 1e-6)


def _ratio(old: str, new: str, text: str) -> Field:
    return Field(f"{_DEV}{old}", f"{_DEV}{new}", "gauge", text, "%", "ratio from 0 to 1", 100.0)


def _memory(old: str, new: str, text: str) -> Field:
    return Field(f"{_DEV}{old}", f"{_DEV}{new}", "gauge", text, "MiB", "bytes", 2**-20)


def _same(old: str, new: str, kind: str, text: str, unit: str = "") -> Field:
    return Field(f"{_DEV}{old}", f"{_DEV}{new}", kind, text, unit, unit)


def _active(old: str, new: str, text: str) -> Field:
    return Field(f"{_PROF}{old}", f"{_PROF}{new}", "gauge", text, "ratio from 0 to 1", "ratio from 0 to 1")


RENAMED: Final = (  # the fields of dcgm-exporter's default and profiling sets that 4.9 renamed
    _clock("SM_CLOCK", "SM_CLOCK_HERTZ", "SM clock frequency"),
    _clock("MEM_CLOCK", "MEMORY_CLOCK_HERTZ", "Memory clock frequency"),
    _same("MEMORY_TEMP", "MEMORY_TEMP_CELSIUS", "gauge", "Memory temperature", "C"),
    _same("GPU_TEMP", "GPU_TEMP_CELSIUS", "gauge", "GPU temperature", "C"),
    _same("POWER_USAGE", "BOARD_POWER_WATTS", "gauge", "Power draw", "W"),
    Field(
        f"{_DEV}TOTAL_ENERGY_CONSUMPTION",
        f"{_DEV}GPU_ENERGY_JOULES_TOTAL",
        "counter",
        "Total energy consumption since the driver was loaded",
        "mJ",
        "J",
        1e3,
    ),
    _same("PCIE_REPLAY_COUNTER", "PCIE_REPLAY_TOTAL", "counter", "Total number of PCIe retries"),
    _ratio("GPU_UTIL", "GPU_UTIL_RATIO", "GPU utilization"),
    _ratio("MEM_COPY_UTIL", "MEMORY_UTIL_RATIO", "Memory utilization"),
    _ratio("ENC_UTIL", "ENC_UTIL_RATIO", "Encoder utilization"),
    _ratio("DEC_UTIL", "DEC_UTIL_RATIO", "Decoder utilization"),
    _same("XID_ERRORS", "XID_ERROR", "gauge", "Value of the last XID error encountered"),
    _memory("FB_FREE", "FB_FREE_BYTES", "Framebuffer memory free"),
    _memory("FB_USED", "FB_USED_BYTES", "Framebuffer memory used"),
    _memory("FB_RESERVED", "FB_RESERVED_BYTES", "Framebuffer memory reserved"),
    Field(
        f"{_DEV}NVLINK_BANDWIDTH_TOTAL",
        f"{_DEV}NVLINK_THROUGHPUT_BYTES_PER_SECOND",
        "gauge",
        "NVLink throughput of all links",
        "MB/s, a thousand KiB each",
        "bytes per second",
        1 / 1_024_000,
    ),
    _same(
        "UNCORRECTABLE_REMAPPED_ROWS",
        "ROW_REMAP_UNCORRECTABLE_TOTAL",
        "counter",
        "Number of remapped rows for uncorrectable errors",
    ),
    _same(
        "CORRECTABLE_REMAPPED_ROWS",
        "ROW_REMAP_CORRECTABLE_TOTAL",
        "counter",
        "Number of remapped rows for correctable errors",
    ),
    _same("ROW_REMAP_FAILURE", "ROW_REMAP_FAILED", "gauge", "Whether remapping of rows has failed"),
    _active("GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO", "Time the graphics engine is active"),
    _active("PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO", "Cycles the tensor pipe is active"),
    _active("DRAM_ACTIVE", "DRAM_UTIL_RATIO", "Cycles the device memory interface is active"),
)
"""22 of the 23: the last one is a label, not a metric."""
LABELS: Final[Mapping[str, str]] = {
    "DCGM_FI_DRIVER_VERSION": "DCGM_FI_SYSTEM_DRIVER_VERSION",
    "Hostname": "hostname",
}
"""Labels that were renamed, the first in 4.9, the second in 4.8.3."""
OPTIONAL: Final = (  # fields that dcgm-exporter ships switched off
    _memory("FB_TOTAL", "FB_CAPACITY_BYTES", "Total framebuffer memory"),
    _same(
        "CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS", "gauge", "Current clock event reasons, a bit mask"
    ),
    *(
        _same(f"ECC_{bits}_{life}_TOTAL", f"ECC_{bits}_{life}_TOTAL", "counter", f"Total number of {text}")
        for bits, life, text in (
            ("SBE", "VOL", "single-bit volatile ECC errors"),
            ("DBE", "VOL", "double-bit volatile ECC errors"),
            ("SBE", "AGG", "single-bit persistent ECC errors"),
            ("DBE", "AGG", "double-bit persistent ECC errors"),
        )
    ),
    _same("RETIRED_SBE", "PAGE_RETIRED_SBE_TOTAL", "counter", "Retired pages due to single-bit errors"),
    _same("RETIRED_DBE", "PAGE_RETIRED_DBE_TOTAL", "counter", "Retired pages due to double-bit errors"),
    _same("RETIRED_PENDING", "PAGE_RETIRED_PENDING", "gauge", "Whether pages are pending retirement"),
    _same("ROW_REMAP_PENDING", "ROW_REMAP_PENDING", "gauge", "Whether remapping of rows is pending"),
    *(
        _same(
            f"NVLINK_{name}_ERROR_COUNT_TOTAL",
            f"NVLINK_{name}_ERROR_TOTAL",
            "counter",
            f"Total number of {text}",
        )
        for name, text in (
            ("CRC_FLIT", "NVLink flow-control CRC errors"),
            ("CRC_DATA", "NVLink data CRC errors"),
            ("REPLAY", "NVLink retries"),
            ("RECOVERY", "NVLink recovery errors"),
        )
    ),
)
FIELDS: Final[Mapping[str, Field]] = {field.old: field for field in (*RENAMED, *OPTIONAL)}
"""Every field by its old name."""
_BY_NAME: Final = {name: field for field in FIELDS.values() for name in (field.old, field.new)}


def read(name: str, value: float) -> tuple[Field, float] | None:
    """Return the field of a series of either name, and its value in the new unit."""
    field = _BY_NAME.get(name)
    if field is None:
        return None
    return field, value if name == field.new else value / field.scale


def write(field: Field, value: float, names: Names) -> list[tuple[str, float]]:
    """Return a value in the new unit under the requested names; a field that kept its name appears once."""
    both = [(field.old, value * field.scale), (field.new, value)]
    wanted = {Names.OLD: both[:1], Names.NEW: both[1:], Names.BOTH: both}[names]
    return list(dict(wanted).items())
