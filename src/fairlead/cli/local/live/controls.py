"""What the keys of `top` do: a pure state machine; the driver performs what it asks for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairlead.cli.live.keys import SpecialKey
from fairlead.compat import StrEnum
from fairlead.job import LocalJob
from fairlead.local.status import LocalStatus


class SortKey(StrEnum):
    """The order of the jobs; running jobs always come before queued ones."""

    ARRIVAL = "arrival"
    """Running jobs by their start, queued jobs by their place in the queue."""
    GPU_MEMORY = "gpu-mem"
    CPU = "cpu"
    MEMORY = "memory"
    TIME = "time"
    NAME = "name"


class TopEffect(StrEnum):
    """What the driver does after a key."""

    NONE = "none"
    QUIT = "quit"
    CANCEL = "cancel"
    """Cancel the selected job."""


@dataclass(frozen=True, slots=True)
class Controls:
    """What the user has chosen."""

    selected: str = ""
    """A job id; empty: the first row."""
    sort: SortKey = SortKey.ARRIVAL
    filter: str = ""
    typing: bool = False
    """The keys write the filter."""
    asking: str = ""
    """The id of the job that the user is asked about: cancel it?"""
    paused: bool = False
    help: bool = False
    message: str = ""
    """Shown until the next key."""


_PAGE: Final = 10
_LONGEST_FILTER: Final = 40
_MOVES: Final = {
    "k": -1,
    SpecialKey.UP: -1,
    "j": 1,
    SpecialKey.DOWN: 1,
    SpecialKey.PAGE_UP: -_PAGE,
    SpecialKey.PAGE_DOWN: _PAGE,
}
_FAR: Final = 1 << 30
_JUMPS: Final = {"g": -_FAR, SpecialKey.HOME: -_FAR, "G": _FAR, SpecialKey.END: _FAR}


def rows_of(status: LocalStatus, controls: Controls) -> tuple[LocalJob, ...]:
    """Return the jobs that are shown, in order: running ones, then queued ones."""
    groups = (status.running, status.queued)
    return tuple(job for group in groups for job in _ordered(group, status, controls))


def _ordered(jobs: Sequence[LocalJob], status: LocalStatus, controls: Controls) -> list[LocalJob]:
    word = controls.filter.casefold()
    kept = [job for job in jobs if not word or any(word in text for text in _searched(job))]
    if controls.sort is SortKey.ARRIVAL:
        return kept
    if controls.sort is SortKey.NAME:
        return sorted(kept, key=lambda job: (job.name.casefold(), job.number))
    return sorted(kept, key=lambda job: (-_amount(job, status, controls.sort), job.number))


def _searched(job: LocalJob) -> tuple[str, ...]:
    return (job.id.casefold(), job.name.casefold(), job.user.casefold(), job.state.value, job.device or "")


def _amount(job: LocalJob, status: LocalStatus, sort: SortKey) -> float:
    """Return what a job uses or, where it is not measured, what it asks for."""
    use, wanted = job.measured, job.requested
    if sort is SortKey.TIME:
        return status.seconds(job) or 0.0
    if sort is SortKey.CPU:
        return use.cpu / 1000 if use is not None else wanted.cpus or 0.0
    if sort is SortKey.MEMORY:
        return use.memory if use is not None else wanted.memory or 0
    return sum(use.gpu_memory.values()) if use is not None and use.gpu_memory else wanted.gpu_memory or 0


def selected_row(rows: Sequence[LocalJob], controls: Controls) -> int:
    """Return the index of the selected row; -1 without rows."""
    ids = [job.id for job in rows]
    return ids.index(controls.selected) if controls.selected in ids else min(0, len(ids) - 1)


def press(controls: Controls, key: str, rows: Sequence[LocalJob], uid: int) -> tuple[Controls, TopEffect]:
    """Return the controls after a key, and what the driver does; `uid` is the user's own."""
    controls = replace(controls, message="")
    if controls.typing:
        return _type(controls, key), TopEffect.NONE
    if controls.asking:
        return _answer(controls, key)
    if controls.help:
        return replace(controls, help=False), TopEffect.QUIT if key == "q" else TopEffect.NONE
    if key in _MOVES or key in _JUMPS:
        return _move(controls, (_MOVES | _JUMPS)[key], rows), TopEffect.NONE
    if key in ("q", "Q"):
        return controls, TopEffect.QUIT
    return _command(controls, key, rows, uid), TopEffect.NONE


def _command(controls: Controls, key: str, rows: Sequence[LocalJob], uid: int) -> Controls:
    if key == "s":
        order = list(SortKey)
        return replace(controls, sort=order[(order.index(controls.sort) + 1) % len(order)])
    if key == "/":
        return replace(controls, typing=True, filter="")
    if key == SpecialKey.ESCAPE:
        return replace(controls, filter="")
    if key == "p":
        return replace(controls, paused=not controls.paused)
    if key in ("h", "?"):
        return replace(controls, help=True)
    if key == "c":
        return _ask(controls, rows, uid)
    return controls


def _ask(controls: Controls, rows: Sequence[LocalJob], uid: int) -> Controls:
    index = selected_row(rows, controls)
    if index < 0:
        return replace(controls, message="no job is selected")
    job = rows[index]
    if uid not in (0, job.uid):
        return replace(controls, message=f"job {job.id} belongs to {job.user}")
    return replace(controls, selected=job.id, asking=job.id)


def _answer(controls: Controls, key: str) -> tuple[Controls, TopEffect]:
    answered = replace(controls, asking="", selected=controls.asking)
    if key in ("y", "Y"):
        return answered, TopEffect.CANCEL
    return replace(answered, message="not cancelled"), TopEffect.NONE


def _type(controls: Controls, key: str) -> Controls:
    if key in (SpecialKey.ENTER, SpecialKey.UP, SpecialKey.DOWN):
        return replace(controls, typing=False)
    if key == SpecialKey.ESCAPE:
        return replace(controls, typing=False, filter="")
    if key == SpecialKey.BACKSPACE:
        return replace(controls, filter=controls.filter[:-1])
    if len(key) == 1 and key.isprintable() and len(controls.filter) < _LONGEST_FILTER:
        return replace(controls, filter=controls.filter + key)
    return controls


def _move(controls: Controls, step: int, rows: Sequence[LocalJob]) -> Controls:
    if not rows:
        return controls
    index = max(0, min(len(rows) - 1, selected_row(rows, controls) + step))
    return replace(controls, selected=rows[index].id)
