"""The settings of a simulation; the command line overrides those of the trace."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from math import inf
from typing import Any, Final

from fairlead.errors import SettingsError
from fairlead.schedule.filter.interference import MODELS
from fairlead.simulate.play.waiting import ORDERS
from fairlead.units import parse_duration


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The settings of one simulation."""

    interference: str = "time-slicing"
    """How jobs on one accelerator slow each other down: a name of `interference.MODELS`."""
    price: float | None = None
    """The slowdown that each co-runner adds; None: that of the interference model."""
    queue: str = "fifo"
    """Which waiting job is tried first: a name of `waiting.ORDERS`."""
    keep_progress: bool = False
    """Whether an evicted or killed job keeps its progress; otherwise it starts from zero."""
    preemption: bool = True
    restart: float = 10.0
    """Seconds until a job that ran out of memory restarts; each time twice as long."""
    restart_most: float = 300.0
    restart_first: float | None = None
    """Seconds until the first restart; the back-off begins after it. None: as `restart`."""
    kills: int = 20
    """How often a job may run out of memory before it counts as failed."""
    until: float = inf
    """Seconds of virtual time after which the simulation stops."""


_DURATIONS: Final = ("restart", "restart_most", "restart_first", "until")
_CHOICES: Final[Mapping[str, Mapping[str, object]]] = {"interference": MODELS, "queue": ORDERS}


def merge_settings(
    base: SimulationSettings, overrides: Mapping[str, object], where: str
) -> SimulationSettings:
    """Return the settings with the values of a file or a command line; `where` names it in errors."""
    values: dict[str, Any] = {}
    known = [field.name for field in fields(SimulationSettings)]
    for spelled, value in overrides.items():
        name = spelled.replace("-", "_")
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
            raise SettingsError(f"{where}: unknown setting {spelled!r}", hint)
        values[name] = _value(name, value, f"{where}: {spelled}")
    return replace(base, **values)


def _value(name: str, value: object, where: str) -> object:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise SettingsError(f"{where}: {value!r} is not known", f"known: {', '.join(_CHOICES[name])}")
        return value
    if name == "price":
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < inf:
            raise SettingsError(f"{where}: {value!r} is not a number that is not negative")
        return float(value)
    if name == "kills":
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise SettingsError(f"{where}: {value!r} is not a whole number from 1 up")
        return value
    if name not in _DURATIONS:
        if not isinstance(value, bool):
            raise SettingsError(f"{where}: {value!r} is neither true nor false")
        return value
    if name == "restart_first" and str(value) in ("0", "0s"):  # the kubelet's first restart is at once
        return 0.0
    return duration_of(str(value), where)


def duration_of(text: str, where: str) -> float:
    """Return a positive number of seconds."""
    try:
        seconds = float(parse_duration(text))
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    if not 0 < seconds < inf:
        raise SettingsError(f"{where}: {text!r} is not a positive duration", "write it like 10s or 2h")
    return seconds
