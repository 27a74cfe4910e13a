"""Parse the name of a device: a catalog id and, after each `@`, a link, power mode, memory or share."""

import re
from dataclasses import dataclass
from typing import Any, Final

from fairlead.annotations import MIG
from fairlead.errors import SettingsError
from fairlead.units import BitsPerSecond, Bytes, Watts, parse_bytes

_USB: Final = {"usb1": 12e6, "usb2": 480e6, "usb3": 5e9, "usb3.1": 5e9, "usb3.2": 10e9, "usb4": 40e9}
_PCIE_LANE: Final = {"1": 2e9, "2": 4e9, "3": 7.877e9, "4": 15.754e9, "5": 31.508e9, "6": 60.5e9}
"""Bits per second of one lane, its coding taken off, by generation."""
_PCIE: Final = re.compile(r"pcie([1-6])(?:x(1|2|4|8|16))?")
_POWER: Final = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?)w")
_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%")
_FRACTION: Final = re.compile(r"([0-9]{1,3})/([0-9]{1,3})")
_DECIMAL: Final = re.compile(r"[01]?\.[0-9]{1,6}|[01]")
_MEMORY: Final = re.compile(r"([0-9]{1,4})(?:gb|gib|g)")
_PROFILE: Final = re.compile(r"(?:([1-7])c\.)?([1-7])g\.[0-9]{1,3}gb[a-z.+-]{0,12}")
_MOST_SLICES: Final = 7
_SLICES: Final = {"a30": 4, "rtx-pro-6000-blackwell": 4, "rtx-pro-5000-blackwell": 2}
"""The compute slices of GPUs that have other than 7, by NVIDIA's MIG User Guide."""
_HINT: Final = "a link (usb2, pcie3x4), a power mode (15w), a memory (80GiB) or a share (1/7)"


@dataclass(frozen=True, slots=True)
class DeviceExpression:
    """A device as the user names it."""

    text: str
    device: str
    bus: str = ""
    link: BitsPerSecond | None = None
    power: Watts | None = None
    memory: Bytes | None = None
    share: float = 1.0


def parse(text: str) -> DeviceExpression:
    """Read `coral-usb@usb2`, `jetson-agx-xavier@15w`, `a100@80GiB@1/7`, `h200-mig-1g.18gb`."""
    name, *terms = text.strip().split("@")
    device, mig, profile = name.strip().lower().partition(MIG)
    fields: dict[str, Any] = {"share": _profile_share(text, device, profile)} if mig else {}
    for term in terms:
        term_fields = _parse_term(text, term.strip().lower())
        if term_fields.keys() & fields.keys():
            raise SettingsError(f"{text}: {term!r} repeats a kind of term", "write one of each kind")
        fields |= term_fields
    return DeviceExpression(text, device, **fields)


def _profile_share(text: str, device: str, profile: str) -> float:
    """Return the part of a GPU's compute slices that a MIG profile has."""
    match = _PROFILE.fullmatch(profile)
    if match is None:
        raise SettingsError(f"{text}: {profile!r} is not a MIG profile", "write it like h200-mig-1g.18gb")
    return min(1.0, int(match[1] or match[2]) / _SLICES.get(device, _MOST_SLICES))


def _parse_term(text: str, term: str) -> dict[str, Any]:
    """Return the fields of the expression that a term sets."""
    if term in _USB:
        return {"bus": "usb", "link": BitsPerSecond(_USB[term])}
    if lane := _PCIE.fullmatch(term):
        return {"bus": "pcie", "link": BitsPerSecond(_PCIE_LANE[lane[1]] * int(lane[2] or 1))}
    if watts := _POWER.fullmatch(term):
        return {"power": Watts(float(watts[1]))}
    if size := _MEMORY.fullmatch(term):
        return {"memory": parse_bytes(f"{size[1]}GiB")}
    share = _parse_share(term)
    if share is None:
        raise SettingsError(f"{text}: unknown term {term!r}", f"write {_HINT}")
    if not 0 < share <= 1:
        raise SettingsError(f"{text}: a share is more than 0 and at most 1", "write it like 1/7")
    return {"share": share}


def _parse_share(term: str) -> float | None:
    if part := _FRACTION.fullmatch(term):
        return int(part[1]) / int(part[2]) if int(part[2]) else 0.0
    if part := _PERCENT.fullmatch(term):
        return float(part[1]) / 100
    return float(term) if _DECIMAL.fullmatch(term) else None
