"""What becomes of a run that goes on: stages move to new pods, and back if the run became worse. Pure.

    new pods start in free slots -> the run is measured -> a canary, if one is wanted (canary.py)
        -> the file names them -> the run carries it out
        -> the run is observed -> the last pods end, or the file names them again

The file of the run and its record say how far this has come, so that any operator goes on with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from fairlead.pipeline.replan.following import ChangeRefusal, live_change
from fairlead.pipeline.yaml_file import read_document
from fairlead.pipelineobjects.resource import CANARY_FOR, CanaryPolicy, PipelineResource
from fairlead.pipelineobjects.sequence import (
    COORDINATOR,
    Place,
    PodSequence,
    stop_coordinator,
)
from fairlead.pipelineobjects.update.canary import (
    PHASES,
    leave,
    observe_canary,
    refuse,
    why_none,
    with_canary,
)
from fairlead.pipelineobjects.update.observation import observe_run
from fairlead.pipelineobjects.update.reasons import describe_moves
from fairlead.pipelineobjects.update.record import UpdatePhase, UpdateRecord
from fairlead.pipelineobjects.update.run_file import RunFile
from fairlead.pipelineobjects.update.run_status import FollowStatus
from fairlead.pipelineobjects.update.surge import HostMove, is_crowded_out, is_leaving, is_ready, plan_moves
from fairlead.pipelineobjects.update.verdict import window_between
from fairlead.reconcile import Announcement, Manifest

BASELINE: Final = 10.0
"""Seconds for which a run is measured before an update."""
_ENDED: Final = "the run could not begin it, or an old pod was lost meanwhile"
_UNREAD: Final = timedelta(seconds=30)
"""After this time without a page a run is drained and started again."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that goes on, and what it shall become."""

    resource: PipelineResource
    made_from: Manifest
    """The resource's spec, with what it leaves open."""
    before: PipelineResource | None
    """What the file was made from."""
    target: str
    """The digest of what the resource becomes."""
    wanted: Mapping[str, Manifest]
    pods: Mapping[Place, Manifest]
    file: RunFile
    status: FollowStatus | None
    """What its page said a moment ago; None: nothing."""
    now: datetime

    @property
    def is_back(self) -> bool:
        """Whether the resource is the last one, because the newest was rolled back."""
        return bool(self.file.record.refused)

    @property
    def starts(self) -> int:
        """How often the coordinator's container was started again."""
        states = (self.pods[COORDINATOR].get("status") or {}).get("containerStatuses") or ()
        return sum(int(each.get("restartCount") or 0) for each in states)

    @property
    def slots(self) -> dict[str, str]:
        """The slots of hosts in the file."""
        return self.file.slots(self.resource)


@dataclass(frozen=True, slots=True)
class LivePlan:
    """What is done now."""

    sequence: PodSequence
    file: RunFile
    doing: str = ""
    """What the update does, or waits for; empty: there is none."""
    announcements: tuple[Announcement, ...] = field(default=())
    reads_page: bool = False
    """Whether the next step depends on the page of the run."""


def plan_live(run: LiveRun) -> LivePlan:
    """Return what becomes of a run that goes on."""
    moves = plan_moves(
        run.wanted, run.pods, run.slots, lambda host, slot: _can_move(run, host, slot), run.now
    )
    after = {move.host: move.next for move in moves}
    document = run.resource.document_at({**run.slots, **after})
    if run.file.record.phase in PHASES:
        return _plan_canary(run, moves, RunFile(document, run.made_from, run.file.record))
    if document == run.file.document:
        return _plan_settled(run, moves)
    if _is_update(run, moves) and not is_ready(run.pods, COORDINATOR):
        return stop(run, "no frames flow that it could keep")
    change = live_change(run.file.spec, read_document(document))
    if isinstance(change, ChangeRefusal):
        return stop(run, change.reason)
    crowded = [move for move in moves if is_crowded_out(move, run.wanted[move.host], run.pods, run.now)]
    if crowded:
        return stop(run, f"the new pod of {crowded[0].host} finds no node beside the old one")
    target = RunFile(document, run.made_from, run.file.record)
    waits = _unready(run, moves)
    if waits:
        return _plan_starting(run, moves, change.stages, waits)
    return _plan_switch(run, moves, change.stages, target)


def stop(run: LiveRun, reason: str) -> LivePlan:
    """Return that the run is drained, and started again with what it cannot carry out while it goes on."""
    text = f"the run is drained and started again: {reason}"
    sequence = replace(stop_coordinator(run.pods), slots=run.slots)
    return LivePlan(sequence, run.file, text, (Announcement("Normal", "Draining", text),))


def _can_move(run: LiveRun, host: str, slot: str) -> bool:
    moved = run.file.with_slots(run.resource, {host: slot})
    return not isinstance(live_change(run.file.spec, moved.spec), ChangeRefusal)


def _unready(run: LiveRun, moves: list[HostMove]) -> list[HostMove]:
    """Return the hosts whose pod must be ready before the file names it."""
    used = {stage.on for stage in run.file.spec.stages}
    return [
        move
        for move in moves
        if (move.is_moving or move.host not in used) and not is_ready(run.pods, (move.host, move.next))
    ]


def _sequence(run: LiveRun, moves: list[HostMove], slots: Mapping[str, str]) -> PodSequence:
    """Return what becomes of pods while others start: what is there stays."""
    create = tuple(place for move in moves for place in move.create)
    end = tuple(place for move in moves for place in move.end if _may_end(run, place))
    keep = tuple(place for place in run.pods if place not in end)
    return PodSequence(create, keep, end, slots=slots)


def _may_end(run: LiveRun, place: Place) -> bool:
    return not run.pods[place]["metadata"].get("deletionTimestamp")


def _used(run: LiveRun, moves: list[HostMove], file: RunFile) -> dict[str, str]:
    """Return the slots in which the run is by a file."""
    slots = file.slots(run.resource)
    return {move.host: slots.get(move.host, move.slot) for move in moves}


def _plan_starting(
    run: LiveRun, moves: list[HostMove], stages: tuple[str, ...], waits: list[HostMove]
) -> LivePlan:
    """Return what is done while new pods start: hosts that were lost do not wait for those that change."""
    urgent = {
        move.host: move.next
        for move in moves
        if is_leaving(move) and is_ready(run.pods, (move.host, move.next))
    }
    file = _measure(run, stages) if _is_update(run, moves) else run.file
    if urgent:
        text = describe_moves(run.before, run.resource, [m for m in moves if m.host in urgent], run.pods)
        record = file.record.settled().begins(UpdatePhase.SWITCHING, run.now, text=text, starts=run.starts)
        file = run.file.with_slots(run.resource, urgent).with_record(record)
    names = ", ".join(move.host for move in waits)
    doing = f"the run goes on while the new pod of {names} starts"
    return LivePlan(_sequence(run, moves, _used(run, moves, file)), file, doing, reads_page=True)


def _is_update(run: LiveRun, moves: list[HostMove]) -> bool:
    """Return whether another spec is the reason, not pods that were lost alone."""
    return any(move.is_update for move in moves) or run.resource.document_at(run.slots) != run.file.document


def _is_observed(run: LiveRun, moves: list[HostMove]) -> bool:
    """Return whether the run is compared with before: not where pods were lost, or where it goes back."""
    policy = run.resource.update
    is_wanted = policy.is_rolled_back and policy.observe > 0 and not run.is_back
    return is_wanted and _is_update(run, moves)


def _measure(run: LiveRun, stages: tuple[str, ...]) -> RunFile:
    """Return the file with what the run has counted so far; it is kept until the update is made."""
    record = run.file.record
    policy = run.resource.update
    if run.is_back or not policy.is_rolled_back or not policy.observe:
        return run.file
    counts = run.status.counts(stages) if run.status is not None else None
    if record.phase is not UpdatePhase.MEASURING or record.moved != stages:
        record = UpdateRecord().begins(UpdatePhase.MEASURING, run.now, moved=stages, begin=counts)
        return run.file.with_record(record)
    has_begun_again = record.begin and counts and counts.seconds < record.begin.seconds
    if counts is not None and (record.begin is None or has_begun_again):
        return run.file.with_record(replace(record, begin=counts))
    return run.file


def _plan_switch(run: LiveRun, moves: list[HostMove], stages: tuple[str, ...], target: RunFile) -> LivePlan:
    """Return the file that names the new pods, once it is known how the run is without them."""
    record = run.file.record
    if run.status is None:
        return _plan_unread(run, moves, stages)
    kept = replace(record.settled(), moved=stages, starts=run.starts)
    if _is_observed(run, moves):
        measured = _measure(run, stages)
        begin = measured.record.begin
        window = window_between(begin, run.status.counts(stages)) if begin else None
        if window is not None and window.seconds >= BASELINE:
            kept = replace(kept, previous=run.file.made_from, before=window)
        else:
            doing = "the new pods are ready; the run is measured before its stages move"
            slots = _used(run, moves, run.file)
            return LivePlan(_sequence(run, moves, slots), measured, doing, reads_page=True)
    if run.is_back and not stages:  # a canary has ended: the file has the hosts that were chosen for it
        file = target.with_record(kept.begins(UpdatePhase.SWITCHING, run.now))
        return LivePlan(_sequence(run, moves, run.slots), file, "the canary has ended", reads_page=True)
    text = describe_moves(run.before, run.resource, moves, run.pods, stages)
    said: tuple[Announcement, ...] = (Announcement("Normal", "Moving", text),)
    if run.resource.update.canary is not None and _is_observed(run, moves):
        missing = _ENDED if record.tried == run.target else why_none(run.file.spec, target.spec, stages)
        if not missing:
            return _begin_canary(run, moves, replace(kept, target=run.target, text=text))
        said = (*said, Announcement("Normal", "NoCanary", f"the update has no canary: {missing}"))
        text = f"{text}; no canary: {missing}"
    file = target.with_record(kept.begins(UpdatePhase.SWITCHING, run.now, text=text, tried=""))
    return LivePlan(_sequence(run, moves, _used(run, moves, file)), file, text, said, reads_page=True)


def _begin_canary(run: LiveRun, moves: list[HostMove], record: UpdateRecord) -> LivePlan:
    """Return the file in which the new pods take a share of the frames."""
    assert run.resource.update.canary is not None
    percent = run.resource.update.canary.percent
    slots = {move.host: move.next for move in moves}
    file = with_canary(run.file, run.resource, slots, record.moved, percent)
    doing = f"a canary begins: {percent} % of the frames of {', '.join(record.moved)}"
    tried = file.with_record(record.begins(UpdatePhase.TRYING, run.now))
    return LivePlan(_hold(run), tried, doing, reads_page=True)


def _hold(run: LiveRun) -> PodSequence:
    """Return that every pod stays: a canary is in some of them."""
    return PodSequence(keep=tuple(run.pods), slots=run.slots)


def _plan_canary(run: LiveRun, moves: list[HostMove], target: RunFile) -> LivePlan:
    """Return what becomes of a canary; without its pods, or those of the old version, it ends."""
    policy, record = run.resource.update.canary or CanaryPolicy(1, CANARY_FOR), run.file.record
    is_tried = record.phase is not UpdatePhase.LEAVING and record.target == run.target
    moving = [move for move in moves if move.is_moving] if is_tried else []
    old = [move.host for move in moving if not is_ready(run.pods, (move.host, move.slot))]
    new = [move.host for move in moving if not is_ready(run.pods, (move.host, move.next))]
    if old:
        text = f"the canary ends: the pod of {', '.join(old)} is not ready"
        return LivePlan(_hold(run), leave(run.file, run.now, tried=run.target), text, reads_page=True)
    if new:
        step = refuse(run.file, run.target, f"the new pod of {', '.join(new)} is not ready any more", run.now)
    else:
        step = observe_canary(run.file, run.status, policy, run.target, run.starts, run.now)
    if step.stops:
        return stop(run, step.stops)
    if not step.has_passed:
        return LivePlan(_hold(run), step.file, step.doing, step.announcements, reads_page=True)
    moved = target.with_record(record.begins(UpdatePhase.SWITCHING, run.now, target="", warm=None))
    said = (*step.announcements, Announcement("Normal", "Moving", record.text))
    return LivePlan(
        _sequence(run, moves, _used(run, moves, moved)), moved, record.text, said, reads_page=True
    )


def _plan_unread(run: LiveRun, moves: list[HostMove], stages: tuple[str, ...]) -> LivePlan:
    """Return what is done while the page of the run is away: without it an update would have no end."""
    record = run.file.record
    if record.phase is not UpdatePhase.MEASURING:
        record = record.settled().begins(UpdatePhase.MEASURING, run.now, moved=stages)
    if record.since is not None and run.now - record.since >= _UNREAD:
        return stop(run, "its page cannot be read")
    doing = "the new pods are ready; the page of the run is away"
    slots = _used(run, moves, run.file)
    return LivePlan(_sequence(run, moves, slots), run.file.with_record(record), doing, reads_page=True)


def _plan_settled(run: LiveRun, moves: list[HostMove]) -> LivePlan:
    """Return what is done once the file says what is wanted: the run carries it out, and is observed."""
    slots = _used(run, moves, run.file)
    left = [
        place
        for place in run.pods
        if place != COORDINATOR and slots.get(place[0]) != place[1] and _may_end(run, place)
    ]
    seen = observe_run(run.file, run.status, run.resource.update, run.starts, run.now, has_left=bool(left))
    if seen.stops:
        return stop(run, seen.stops)
    if seen.worse:
        return _roll_back(run, moves, seen.worse)
    file = run.file.with_record(seen.record)
    if seen.record.phase is UpdatePhase.NONE:
        file = replace(file, made_from=run.made_from)
    sequence = _sequence(run, moves, slots)
    if seen.is_over:
        keep = tuple(place for place in sequence.keep if place not in left)
        sequence = replace(sequence, keep=keep, end=tuple(dict.fromkeys((*sequence.end, *left))))
    waits = seen.record.phase is not UpdatePhase.NONE or bool(left)
    return LivePlan(sequence, file, seen.doing, seen.announcements, reads_page=waits)


def _roll_back(run: LiveRun, moves: list[HostMove], worse: str) -> LivePlan:
    """Return the file with the last spec in place of the one by which the run became worse."""
    previous = run.file.record.previous
    record = UpdateRecord(refused=run.target, reason=worse)
    file = replace(run.file, made_from=previous or run.file.made_from, record=record)
    text = f"rolled back: {worse}"
    said = (Announcement("Warning", "RolledBack", text),)
    sequence = replace(_sequence(run, moves, run.slots), create=(), end=(), keep=tuple(run.pods))
    return LivePlan(sequence, file, text, said, reads_page=True)
