"""A canary of an update: new pods take a share of the frames before the stages move, and are compared. Pure.

the file names both versions -> the run carries it out -> both are compared -> the stages move, or the file
    names the old version alone, and the new one is refused once the run carries that out
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from fairlead.pipeline.spec import PipelineSpec
from fairlead.pipelineobjects.resource import CanaryPolicy, PipelineResource
from fairlead.pipelineobjects.update.observation import CARRIED_OUT_WITHIN
from fairlead.pipelineobjects.update.record import UpdatePhase, UpdateRecord
from fairlead.pipelineobjects.update.run_file import RunFile
from fairlead.pipelineobjects.update.run_status import FollowStatus
from fairlead.pipelineobjects.update.version_verdict import (
    compare_versions,
    describe_versions,
    find_crashes,
    warm_counts,
)
from fairlead.reconcile import Announcement
from fairlead.units import format_duration

PHASES: Final = (UpdatePhase.TRYING, UpdatePhase.COMPARING, UpdatePhase.LEAVING)
_MARK: Final = ".canary"
"""Behind the name of a host: a host of the resource has no dot."""


@dataclass(frozen=True, slots=True)
class CanaryStep:
    """What follows from a canary that is under way."""

    file: RunFile
    doing: str = ""
    announcements: tuple[Announcement, ...] = field(default=())
    has_passed: bool = False
    """The new version is no worse: the stages move."""
    stops: str = ""
    """Why the run must be started again; empty: it goes on."""


def why_none(old: PipelineSpec, new: PipelineSpec, stages: Sequence[str]) -> str:
    """Return why a change has no canary; empty: it can have one."""
    if not stages:
        return "no stage moves"
    for name in stages:
        before, after = old.stage(name), new.stage(name)
        if not before.is_replicated:
            return f"{name} is one process; with replicas: {{min: 1, max: 2}} it could have one"
        if before.settings != after.settings:
            return f"the spec of stage {name} changed, and all its processes have one"
        if before.on != after.on or set(old.places_of(before)) & set(new.places_of(after)):
            return f"{name} does not move to another pod of its host"
    return ""


def with_canary(
    file: RunFile, resource: PipelineResource, slots: Mapping[str, str], stages: Sequence[str], percent: int
) -> RunFile:
    """Return a file in which new pods, in these slots, take a share of the frames of stages."""
    hosts, bodies = dict(file.document.get("hosts") or {}), []
    for body in file.document["stages"]:
        host = body.get("on", "")
        if body["name"] in stages:
            hosts[f"{host}{_MARK}"] = {"address": resource.address(host, slots[host])}
            bodies.append({**body, "canary": {"host": f"{host}{_MARK}", "percent": percent}})
        else:
            bodies.append(body)
    return replace(file, document={**file.document, "stages": bodies, "hosts": hosts})


def without_canary(file: RunFile) -> RunFile:
    """Return a file with the old version alone."""
    hosts = {
        name: body for name, body in (file.document.get("hosts") or {}).items() if not name.endswith(_MARK)
    }
    stages = [
        {key: value for key, value in body.items() if key != "canary"} for body in file.document["stages"]
    ]
    return replace(file, document={**file.document, "stages": stages, "hosts": hosts})


def leave(file: RunFile, now: datetime, *, refused: str = "", reason: str = "", tried: str = "") -> RunFile:
    """Return the file with the old version alone; its record says what the canary came to."""
    record = UpdateRecord(UpdatePhase.LEAVING, now, refused=refused, reason=reason, tried=tried)
    return without_canary(file).with_record(record)


def observe_canary(
    file: RunFile, status: FollowStatus | None, policy: CanaryPolicy, target: str, starts: int, now: datetime
) -> CanaryStep:
    """Return what follows from the page of a run whose file has or had a canary.

    `target` is the digest of what is wanted now; `starts`: how often the coordinator was started again.
    """
    record = file.record
    if record.phase is UpdatePhase.LEAVING:
        return _on_leaving(file, status, now)
    if record.target != target:
        return CanaryStep(leave(file, now), "the spec has changed: the canary ends")
    if starts > record.starts:
        return refuse(file, target, "the run ended since the canary began", now)
    if record.phase is UpdatePhase.COMPARING:
        return _on_comparing(file, status, policy, target, now)
    return _on_trying(file, status, policy, target, now)


def refuse(file: RunFile, target: str, reason: str, now: datetime) -> CanaryStep:
    """Return the file with the old version alone; the target is not tried again before it changes."""
    text = f"rolled back: {reason}"
    said = Announcement("Warning", "RolledBack", text)
    return CanaryStep(leave(file, now, refused=target, reason=reason), text, (said,))


def _on_leaving(file: RunFile, status: FollowStatus | None, now: datetime) -> CanaryStep:
    if status is not None and status.digest == file.digest:
        return CanaryStep(file.with_record(file.record.settled()), "the canary has ended")
    why = "the run does not go back to the old version alone" if _is_late(file.record, now) else ""
    return CanaryStep(file, "the canary ends", stops=why)


def _on_trying(
    file: RunFile, status: FollowStatus | None, policy: CanaryPolicy, target: str, now: datetime
) -> CanaryStep:
    record = file.record
    if status is not None and status.digest == file.digest:
        text = f"{policy.percent} % of the frames of {', '.join(record.moved)} go to the new version"
        said = Announcement("Normal", "Canary", f"{text} for {format_duration(policy.duration)}")
        return CanaryStep(file.with_record(record.begins(UpdatePhase.COMPARING, now)), text, (said,))
    has_read = status is not None and status.seen == file.digest
    if status is not None and has_read and status.pending:
        return CanaryStep(leave(file, now, tried=target), f"no canary: {status.pending}")
    if _is_late(record, now):
        why = (status.failed if status is not None and has_read else "") or "its page does not say why"
        return refuse(file, target, f"the canary was not begun: {why}", now)
    return CanaryStep(file, "the run begins the canary")


def _is_late(record: UpdateRecord, now: datetime) -> bool:
    return record.since is not None and now >= record.since + CARRIED_OUT_WITHIN


def _on_comparing(
    file: RunFile, status: FollowStatus | None, policy: CanaryPolicy, target: str, now: datetime
) -> CanaryStep:
    record = file.record
    ends = (record.since or now) + timedelta(seconds=policy.duration)
    stages: Sequence[Mapping[str, Any]] = status.stages if status is not None else ()
    tried = [each for each in stages if each.get("name") in record.moved]
    is_over = now >= ends
    if not tried:
        if now >= ends + CARRIED_OUT_WITHIN:
            return refuse(file, target, "the page of the run is away: the canary was not compared", now)
        return CanaryStep(file, "the canary is compared; the page of the run is away")
    worse = compare_versions(tried, record.warm or {}) if is_over else find_crashes(tried)
    if worse:
        return refuse(file, target, worse, now)
    text = describe_versions(tried, record.warm or {})
    if not is_over:
        warm = record.warm or warm_counts(tried)
        kept = file if warm == record.warm else file.with_record(replace(record, warm=warm))
        return CanaryStep(kept, f"a canary runs for {format_duration(policy.duration)}")
    said = Announcement("Normal", "CanaryPassed", f"the new version is no worse: {text}")
    return CanaryStep(file, announcements=(said,), has_passed=True)
