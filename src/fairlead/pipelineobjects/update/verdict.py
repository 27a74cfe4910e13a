"""Whether a run became worse by an update: what it did before beside what it does after. Pure."""

from dataclasses import dataclass
from typing import Final

from fairlead.pipelineobjects.update.run_status import RunCounts
from fairlead.units import format_duration, pluralize

_LEAST_RATE: Final = 0.8
"""The share of the rate before that counts as no worse."""
_MORE_DROPS: Final = 0.2
"""The share of the frames read that more drops may cost."""
_NOISE: Final = 5
"""Frames by which two rates may differ by chance."""
_CRASHES: Final = 2
_MORE_BLOCKED: Final = 0.1


@dataclass(frozen=True, slots=True)
class RunWindow:
    """What a run did in some time."""

    seconds: float
    taken: int = 0
    read: int = 0
    failed: int = 0
    restarts: int = 0
    dropped: int = 0
    blocked: float = 0.0

    @property
    def rate(self) -> float:
        """Frames that sinks took in a second."""
        return self.taken / self.seconds if self.seconds else 0.0


def window_between(begin: RunCounts, end: RunCounts) -> RunWindow | None:
    """Return what a run did between two counts; None: its process has ended in between."""
    if end.seconds < begin.seconds:
        return None
    return RunWindow(
        end.seconds - begin.seconds,
        max(0, end.taken - begin.taken),
        max(0, end.read - begin.read),
        max(0, end.failed - begin.failed),
        max(0, end.restarts - begin.restarts),
        max(0, end.dropped - begin.dropped),
        end.blocked,
    )


def find_failures(before: RunWindow, after: RunWindow) -> str:
    """Return by what the stages that moved fail, which needs no more time to be seen; empty: nothing."""
    if after.restarts >= _CRASHES + _expected(before, after, before.restarts):
        return f"{pluralize(after.restarts, 'crash', 'crashes')} of its stages since the update"
    if after.failed > _NOISE + 2 * _expected(before, after, before.failed):
        return f"{pluralize(after.failed, 'frame')} failed since the update"
    return ""


def find_decline(before: RunWindow, after: RunWindow) -> str:
    """Return by what a run is worse than before; empty: by nothing."""
    lacking = before.rate * _LEAST_RATE * after.seconds - after.taken
    if lacking > _NOISE and not _is_source_slower(before, after):
        return f"{after.rate:.1f} frames/s after the update, {before.rate:.1f} before"
    more = after.dropped - _expected(before, after, before.dropped)
    if more > _NOISE and more > _MORE_DROPS * after.read:
        now, then = (format_duration(each.seconds) for each in (after, before))
        lost = f"{pluralize(after.dropped, 'frame')} dropped in {now} after the update"
        return f"{lost}, {before.dropped} in {then} before"
    return find_failures(before, after)


def _is_source_slower(before: RunWindow, after: RunWindow) -> bool:
    """Return whether sources gave fewer frames, and not because the stages behind them were slow."""
    fewer = after.read < _LEAST_RATE * _expected(before, after, before.read) - _NOISE
    return fewer and after.blocked <= before.blocked + _MORE_BLOCKED


def _expected(before: RunWindow, after: RunWindow, count: int) -> float:
    """Return what of a count before is to be expected in the time after."""
    return count * after.seconds / before.seconds if before.seconds else 0.0
