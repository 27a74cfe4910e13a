"""LearnedCommand: what is known of a command or a model from its runs on this machine, and its text."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.sizing.footprint import Footprint
from fairlead.sizing.footprint_format import FOOTPRINTS
from fairlead.units import Bytes, Seconds

MOST_RUNS: Final = 32
"""The newest runs of a command, which are kept one by one: they give its seconds, its cores and its risks."""
NO_BYTES: Final = Bytes(0)


@dataclass(frozen=True, slots=True)
class LearnedRun:
    """One run of a command."""

    ended: float
    """Seconds since the epoch."""
    seconds: Seconds
    done: bool
    """It ended by itself with exit code 0."""
    cpu_mean: int = 0
    """Thousandths of a core."""
    cpu_high: int = 0
    """Thousandths of a core: nineteen of twenty samples lie below."""
    memory: Bytes = NO_BYTES
    """Peak of RAM."""
    gpu_memory: Bytes = NO_BYTES
    """Peak of one accelerator."""
    gpus: int = 0
    """Accelerators that it was given."""
    busy: float | None = None
    joules: float | None = None
    used_accelerator: bool | None = None
    """None: unknown."""
    short: bool = False
    """It failed at a limit of memory."""
    cpu_requested: int | None = None
    """Thousandths of a core that the user stated."""
    memory_requested: Bytes | None = None
    gpu_requested: Bytes | None = None
    """Of each accelerator: stated by the user; all of it where the user states a number of accelerators."""
    gpu_total: Bytes | None = None
    """The memory of the accelerator that it ran on."""
    whole: bool = False
    """It had its accelerators alone."""


@dataclass(frozen=True, slots=True)
class LearnedCommand:
    """What is known of a command or a model."""

    key: str
    name: str
    """For people."""
    updated: float = 0.0
    """Seconds since the epoch."""
    gpu: Footprint | None = None
    """The memory of one accelerator; None: no run held any."""
    memory: Footprint | None = None
    """RAM."""
    total: int = 0
    """All runs that were counted, also those that are no longer kept."""
    runs: tuple[LearnedRun, ...] = ()
    """The newest runs, the oldest first."""

    @property
    def whole_runs(self) -> tuple[LearnedRun, ...]:
        """The kept runs that ended by themselves with exit code 0."""
        return tuple(run for run in self.runs if run.done)

    @property
    def seconds(self) -> Seconds | None:
        """The median duration of whole runs; None: there is none."""
        middle = quantile([run.seconds for run in self.whole_runs], 0.5)
        return None if middle is None else Seconds(middle)

    @property
    def seconds_p90(self) -> Seconds | None:
        """The duration that nine of ten whole runs stay below; None: there is none."""
        high = quantile([run.seconds for run in self.whole_runs], 0.9)
        return None if high is None else Seconds(high)

    @property
    def cpu(self) -> int | None:
        """Thousandths of a core that nine of ten runs stay below, nearly all of the time."""
        highs = [run.cpu_high for run in self.runs if run.done or run.seconds > 1.0]
        high = quantile(highs, 0.9)
        return None if high is None else round(high)

    @property
    def idle_runs(self) -> int:
        """Whole runs that had an accelerator and did not use it."""
        return sum(run.used_accelerator is False for run in self.whole_runs)

    @property
    def accelerator_runs(self) -> int:
        """Runs that used an accelerator."""
        return sum(run.used_accelerator is True for run in self.runs)


def quantile(values: Sequence[float], part: float) -> float | None:
    """Return the value below which a part of the values lie; None: there is no value."""
    if not values:
        return None
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def _encode(learned: LearnedCommand) -> dict[str, Any]:
    return {
        "key": learned.key,
        "name": learned.name,
        "updated": learned.updated,
        "total": learned.total,
        "gpu": _footprint_body(learned.gpu),
        "memory": _footprint_body(learned.memory),
        "runs": [_run_row(run) for run in learned.runs],
    }


def _footprint_body(footprint: Footprint | None) -> Any:
    return None if footprint is None else json.loads(FOOTPRINTS.encode((footprint,)))


def _run_row(run: LearnedRun) -> dict[str, Any]:
    row = {name: getattr(run, name) for name in run.__slots__}
    return {name: value for name, value in row.items() if value is not None}


def _decode(body: Mapping[str, Any]) -> LearnedCommand:
    return LearnedCommand(
        str(body["key"]),
        str(body["name"]),
        float(body["updated"]),
        _footprint(body["gpu"]),
        _footprint(body["memory"]),
        int(body["total"]),
        tuple(_learned_run(row) for row in body["runs"]),
    )


def _footprint(body: Any) -> Footprint | None:
    return None if body is None else FOOTPRINTS.decode(json.dumps(body))[0]


def _learned_run(row: Mapping[str, Any]) -> LearnedRun:
    for name, value in row.items():
        if type(value) not in {bool, int, float} or not isfinite(value) or value < 0:
            raise ValueError(f"{name}: {value!r} is not an amount")
    return LearnedRun(**row)


LEARNED: Final[VersionedFormat[LearnedCommand]] = VersionedFormat(
    "learned-command", JSON, {1: Codec(_encode, _decode)}
)
"""What was learned of a command or a model, in the user's own history."""
