"""How far a run carries its file out, and whether it became worse by it. Pure."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from fairlead.pipelineobjects.resource import UpdatePolicy
from fairlead.pipelineobjects.update.record import UpdatePhase, UpdateRecord
from fairlead.pipelineobjects.update.run_file import RunFile
from fairlead.pipelineobjects.update.run_status import FollowStatus
from fairlead.pipelineobjects.update.verdict import RunWindow, find_decline, find_failures, window_between
from fairlead.reconcile import Announcement
from fairlead.units import format_duration

CARRIED_OUT_WITHIN: Final = timedelta(minutes=2)
"""How long a run may take to carry a file out; then it is rolled back, or drained and started again."""
_UNREAD: Final = timedelta(minutes=1)
"""How long beyond its time a run is observed whose page is away."""
_AGAIN: Final = "the run takes its last file again"
_STARTS: Final = 2
"""Starts of the coordinator's container after which a file counts as worse."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What follows from what a run does."""

    record: UpdateRecord
    is_over: bool = False
    """The run is where its file says: pods that are not in it end."""
    worse: str = ""
    """By what the run is worse than before; empty: it goes on."""
    stops: str = ""
    """Why the run must be started again; empty: it goes on."""
    doing: str = ""
    announcements: tuple[Announcement, ...] = field(default=())


def observe_run(
    file: RunFile,
    status: FollowStatus | None,
    policy: UpdatePolicy,
    starts: int,
    now: datetime,
    *,
    has_left: bool,
) -> Observation:
    """Return what follows from the page of a run whose file says what is wanted.

    `starts`: how often the coordinator's container was started again; `has_left`: pods that are not in the
    file are still there.
    """
    record = file.record
    is_carried_out = status is not None and status.digest == file.digest
    if record.phase is UpdatePhase.SWITCHING:
        if status is not None and is_carried_out:
            return _on_carried_out(record, status, policy, starts, now)
        return _on_waiting(file, status, starts, now)
    if record.phase is UpdatePhase.OBSERVING:
        return _on_observed(file, status, policy, starts, now)
    doing = "the run leaves its last pods" if has_left and not is_carried_out else ""
    return Observation(record.settled(), is_over=is_carried_out, doing=doing)


def _on_carried_out(
    record: UpdateRecord, status: FollowStatus, policy: UpdatePolicy, starts: int, now: datetime
) -> Observation:
    said = (Announcement("Normal", "Moved", record.text),) if record.text else ()
    if record.previous is None:
        return Observation(record.settled(), is_over=True, announcements=said)
    begin = status.counts(record.moved)
    observing = record.begins(UpdatePhase.OBSERVING, now, begin=begin, starts=starts)
    return Observation(observing, doing=_observing(policy, record), announcements=said)


def _on_waiting(file: RunFile, status: FollowStatus | None, starts: int, now: datetime) -> Observation:
    """Return what follows while a run does not carry its file out yet."""
    record = file.record
    can_go_back = record.previous is not None
    crashes = starts - record.starts
    if can_go_back and crashes >= _STARTS:
        return Observation(record, worse=f"the coordinator ended {crashes} times since the update")
    has_read = status is not None and status.seen == file.digest
    if status is not None and has_read and status.pending:
        return Observation(record, stops=status.pending)
    if record.since is not None and now >= record.since + CARRIED_OUT_WITHIN:
        why = (status.failed if status is not None and has_read else "") or "its page does not say why"
        limit = format_duration(CARRIED_OUT_WITHIN.total_seconds())
        text = f"the update was not carried out within {limit}: {why}"
        return Observation(record, worse=text) if can_go_back else Observation(record, stops=text)
    failed = f"; tried again: {status.failed}" if status is not None and has_read and status.failed else ""
    return Observation(record, doing=f"{record.text or _AGAIN}{failed}")


def _on_observed(
    file: RunFile, status: FollowStatus | None, policy: UpdatePolicy, starts: int, now: datetime
) -> Observation:
    """Return what follows from a run that is compared with before."""
    record = file.record
    ends = (record.since or now) + timedelta(seconds=policy.observe)
    if starts > record.starts:
        return Observation(record, worse="the run ended since the update, and began again")
    if status is None or record.begin is None or record.before is None:
        if now >= ends + _UNREAD:
            said = (Announcement("Normal", "Updated", "the page of the run is away: it was not compared"),)
            return Observation(record.settled(), is_over=True, announcements=said)
        return Observation(record, doing=_observing(policy, record))
    after = window_between(record.begin, status.counts(record.moved))
    if after is None:
        return Observation(record, worse="the run ended since the update, and began again")
    return _compare(record, record.before, after, policy, is_over=now >= ends)


def _compare(
    record: UpdateRecord, before: RunWindow, after: RunWindow, policy: UpdatePolicy, *, is_over: bool
) -> Observation:
    worse = find_decline(before, after) if is_over else find_failures(before, after)
    if worse:
        return Observation(record, worse=worse)
    if not is_over:
        return Observation(record, doing=_observing(policy, record))
    text = f"the run is no worse: {after.rate:.1f} frames/s after the update, {before.rate:.1f} before"
    said = (Announcement("Normal", "Updated", text),)
    return Observation(replace(record.settled()), is_over=True, announcements=said)


def _observing(policy: UpdatePolicy, record: UpdateRecord) -> str:
    return f"{record.text}; the run is observed for {format_duration(policy.observe)}"
