"""What becomes of a Pipeline's run: nothing runs yet, it goes on, it stops, or it is done. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from fairlead.errors import PipelineError
from fairlead.ownedobjects.kinds import CONFIG_MAPS, digest
from fairlead.ownedobjects.pod_state import PodState, pod_state, spec_hash
from fairlead.pipelineobjects.names import LOCAL, PAGES_PORT
from fairlead.pipelineobjects.pods import image_of, in_slot, wanted_pods, with_file
from fairlead.pipelineobjects.resource import PipelineResource, read_resource
from fairlead.pipelineobjects.scaled import is_scaled
from fairlead.pipelineobjects.sequence import (
    COORDINATOR,
    Place,
    PodSequence,
    sequence_stopped,
    stop_coordinator,
)
from fairlead.pipelineobjects.update.live import LiveRun, plan_live
from fairlead.pipelineobjects.update.record import UpdateRecord
from fairlead.pipelineobjects.update.run_file import RunFile, read_run_file, resolved_spec
from fairlead.pipelineobjects.update.run_status import STATUS_PATH, FollowStatus, read_status
from fairlead.pipelineobjects.wiring import file_name
from fairlead.reconcile import Announcement, Manifest, Observed, PodPage

_FRESH: Final = timedelta(seconds=5)
"""How old a page may be that counts."""
_PAGE_EVERY: Final = 1.0
_SCALE_EVERY: Final = 15.0
"""Seconds from one look to the next at a run whose replicas follow its load."""
Pods = Mapping[Place, Manifest]


@dataclass(frozen=True, slots=True)
class RunTarget:
    """What a Pipeline shall become: what its spec says, or what it was before that was rolled back."""

    resource: PipelineResource
    made_from: Manifest
    mark: str
    """The digest of all of it, wherever its hosts are."""
    asked: str
    """The digest of what the spec says."""
    wanted: Mapping[str, Manifest]
    """Pods by host, without a slot."""
    file: RunFile | None
    """The file of the run that is there."""


@dataclass(frozen=True, slots=True)
class RunDecision:
    """What is done now."""

    sequence: PodSequence
    wanted: Mapping[str, Manifest]
    file: RunFile | None
    objects: tuple[Manifest, ...] = ()
    """Pods that are made, and the coordinator's where it stays: its annotation follows the file."""
    doing: str = ""
    announcements: tuple[Announcement, ...] = ()
    pages: Mapping[PodPage, float] = field(default_factory=dict)
    reads_page: bool = False
    is_live: bool = False
    is_completed: bool = False
    is_lost: bool = False
    """The coordinator's node is lost."""
    status: FollowStatus | None = None
    """What the page of the run said a moment ago; None: nothing."""

    @property
    def rolled_back(self) -> str:
        """By what the newest spec was worse; empty: it was not rolled back."""
        return self.file.record.reason if self.file is not None else ""


def choose_target(observed: Observed, resource: PipelineResource, pods: Pods, image: str) -> RunTarget:
    """Return what a Pipeline shall become."""
    maps = {each["metadata"]["name"]: each for each in observed.owned.get(CONFIG_MAPS, ())}
    file = read_run_file(maps.get(file_name(resource.name)))
    asked = _digest(resource, image)
    spec: Manifest = resolved_spec(observed.resource, resource, image)
    if file is not None and file.record.refused:
        last = _read(observed, file.made_from)
        if file.record.refused == asked and last is not None:
            spec = file.made_from
            resource = replace(last, is_suspended=resource.is_suspended, update=resource.update)
        else:
            file = file.with_record(replace(file.record, refused="", reason=""))
    running = {host: image_of(pod) for (host, _), pod in pods.items() if _runs(pod)}
    wanted = wanted_pods(resource, image, running)
    return RunTarget(resource, spec, _digest(resource, image), asked, wanted, file)


def _digest(resource: PipelineResource, image: str) -> str:
    pods = wanted_pods(resource, image)
    return digest([resource.document, {host: spec_hash(pod) for host, pod in pods.items()}])


def _runs(pod: Manifest) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return not pod["metadata"].get("deletionTimestamp") and phase not in ("Succeeded", "Failed")


def _read(observed: Observed, spec: Manifest) -> PipelineResource | None:
    """Return the resource of a stored spec; None where this version cannot read it."""
    try:
        return read_resource({**observed.resource, "spec": spec})
    except (PipelineError, KeyError, TypeError, ValueError):
        return None


def decide_run(observed: Observed, target: RunTarget, pods: Pods) -> RunDecision:
    """Return what is done now."""
    coordinator = pods.get(COORDINATOR)
    if _is_completed(observed, target, coordinator):
        return _decide_completed(observed, target, pods)
    wanted = {} if target.resource.is_suspended else target.wanted
    state = pod_state(coordinator, wanted.get(LOCAL), observed.now) if coordinator is not None else None
    if state in (PodState.ENDING, PodState.OUTDATED):
        return RunDecision(stop_coordinator(pods), wanted, target.file)
    if state is PodState.ENDED:
        others = tuple(place for place in pods if place != COORDINATOR)
        return RunDecision(PodSequence(keep=others, end=(COORDINATOR,)), wanted, target.file)
    if state is PodState.CURRENT:
        return _decide_live(observed, target, target.file or _restored(observed, target, pods), pods)
    return _decide_stopped(observed, target, pods, wanted)


def _is_completed(observed: Observed, target: RunTarget, coordinator: Manifest | None) -> bool:
    """Return whether the wanted run has come to its end."""
    known = (observed.resource.get("status") or {}).get("completed")
    if known == target.mark:
        return True
    if coordinator is None or target.file is None:
        return False
    slots = target.file.slots(target.resource)
    state = pod_state(coordinator, target.wanted[LOCAL], observed.now)
    is_same = target.resource.document_at(slots) == target.file.document
    return is_same and state is PodState.ENDED and coordinator["status"]["phase"] == "Succeeded"


def _decide_completed(observed: Observed, target: RunTarget, pods: Pods) -> RunDecision:
    """Return that the coordinator's pod stays, as the record of the run, and that its hosts go."""
    stays = COORDINATOR in pods and not target.resource.is_suspended
    others = {place: pod for place, pod in pods.items() if not stays or place != COORDINATOR}
    sequence = sequence_stopped({}, others, {}, observed.now)
    wanted = {LOCAL: target.wanted[LOCAL]} if stays else {}
    sequence = replace(sequence, keep=(*sequence.keep, *([COORDINATOR] if stays else ())))
    return RunDecision(sequence, wanted, target.file, is_completed=True)


def _decide_stopped(
    observed: Observed, target: RunTarget, pods: Pods, wanted: Mapping[str, Manifest]
) -> RunDecision:
    """Return what is done while no coordinator runs: nothing binds the file."""
    resource = target.resource
    slots = target.file.slots(resource) if target.file is not None else {}
    sequence = sequence_stopped(wanted, pods, slots, observed.now)
    record = target.file.record.settled() if target.file is not None else UpdateRecord()
    file = RunFile(resource.document_at({**slots, **sequence.slots}), target.made_from, record)
    return _with_pods(target, RunDecision(sequence, wanted, file, is_lost=COORDINATOR in pods), pods)


def _restored(observed: Observed, target: RunTarget, pods: Pods) -> RunFile:
    """Return the file of a run whose ConfigMap was deleted: what its pods say of it."""
    others = {place: pod for place, pod in pods.items() if place != COORDINATOR}
    slots = sequence_stopped(target.wanted, others, {}, observed.now).slots
    return RunFile(target.resource.document_at(slots), target.made_from)


def _decide_live(observed: Observed, target: RunTarget, file: RunFile, pods: Pods) -> RunDecision:
    page = _page(pods)
    status = _status(observed, target.resource.name, page)
    run = LiveRun(
        target.resource,
        target.made_from,
        _read(observed, file.made_from),
        target.asked,
        target.wanted,
        pods,
        file,
        status,
        observed.now,
    )
    plan = plan_live(run)
    decided = RunDecision(
        plan.sequence,
        target.wanted,
        plan.file,
        doing=plan.doing,
        announcements=plan.announcements,
        pages=_pages(page, target.resource, reads=plan.reads_page),
        reads_page=plan.reads_page,
        is_live=not plan.sequence.waits_for,
        status=status,
    )
    return _with_pods(target, decided, pods)


def _with_pods(target: RunTarget, decided: RunDecision, pods: Pods) -> RunDecision:
    """Return a decision with the pods that it makes, and the annotation of the coordinator's."""
    sequence, made = decided.sequence, list(decided.sequence.create)
    is_kept = COORDINATOR in sequence.keep and not pods[COORDINATOR]["metadata"].get("deletionTimestamp")
    made += [COORDINATOR] if is_kept else []
    objects = [_manifest(target, place, decided.file) for place in made]
    return replace(decided, objects=tuple(objects))


def _manifest(target: RunTarget, place: Place, file: RunFile | None) -> Manifest:
    host, slot = place
    pod = target.wanted[host]
    if host != LOCAL:
        return in_slot(target.resource, pod, slot)
    return with_file(pod, file.digest) if file is not None else pod


def _page(pods: Pods) -> PodPage | None:
    """Return the page of the run; None where its coordinator has no address."""
    status: Mapping[str, Any] = pods[COORDINATOR].get("status") or {}
    address = status.get("podIP")
    is_up = address and status.get("phase") == "Running"
    return PodPage(str(address), PAGES_PORT, STATUS_PATH) if is_up else None


def _pages(page: PodPage | None, resource: PipelineResource, *, reads: bool) -> dict[PodPage, float]:
    """Return how often the page of the run is read: for an update, and for replicas that follow the load."""
    if page is None or not (reads or is_scaled(resource.spec)):
        return {}
    return {page: _PAGE_EVERY if reads else _SCALE_EVERY}


def _status(observed: Observed, pipeline: str, page: PodPage | None) -> FollowStatus | None:
    reading = observed.pages.get(page) if page is not None else None
    if reading is None or reading.error or observed.now - reading.at > _FRESH:
        return None
    return read_status(reading.body, pipeline)
