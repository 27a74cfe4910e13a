"""One pass over a resource: ask its controller, write what differs, report. A flow, and pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fairlead.cluster.http import codec
from fairlead.cluster.times import format_time
from fairlead.errors import (
    AccessError,
    AlreadyExistsError,
    ClusterError,
    ClusterUnavailableError,
    ConflictError,
    InvalidError,
    MissingApiError,
    NotFoundError,
    TooManyRequestsError,
)
from fairlead.reconcile import (
    Announcement,
    Observed,
    PageReading,
    PodPage,
    Reconciled,
    ResourceController,
    ResourceKind,
)
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Effect, Flow
from fairlead.serve.machine.requests import QueriedRequest
from fairlead.serve.operator import writes
from fairlead.serve.operator.announcer import Announcer
from fairlead.serve.operator.applied import digest
from fairlead.serve.operator.kinds import ObjectId, metadata_of
from fairlead.serve.operator.plan import (
    AppliedMemory,
    Change,
    Document,
    ObjectPlanner,
    has_finalizer,
    status_patch,
)
from fairlead.serve.operator.store import ObjectStore, WrittenObject, shown

Result = Literal["done", "gone", "conflict", "refused", "stale", "unavailable", "failed", "stopped"]
UNAVAILABLE: Final = (ClusterUnavailableError, TooManyRequestsError)
_REFUSED: Final = (InvalidError, AccessError, MissingApiError, AlreadyExistsError, ConflictError)
"""Errors of one object, which leave the other objects of the pass alone."""


@dataclass(frozen=True, slots=True)
class Decide(Effect):
    """Ask a controller; the answer is what it returned, or a text where it raised an exception."""

    controller: ResourceController
    observed: Observed


@dataclass(slots=True)
class Outcome:
    """How a pass ended."""

    result: Result = "done"
    reason: str = ""
    again_after: float | None = None
    pages: Mapping[PodPage, float] | None = None
    """The pages that the controller asked for; None: it was not asked."""
    conflicts: dict[tuple[str, str], str] = field(default_factory=dict)
    """By kind and name, as the controller sees them in its next pass."""
    conflicts_changed: bool = False
    """Whether they are of other objects than in the pass before."""
    written: list[WrittenObject] = field(default_factory=list)


@dataclass(slots=True)
class _Pass:
    """A pass that runs; a write changes its resource."""

    key: ObjectId
    resource: Document
    controller: ResourceController
    epoch: int
    outcome: Outcome


class Reconciler:
    """Runs passes over resources."""

    def __init__(
        self,
        controllers: Mapping[ResourceKind, ResourceController],
        store: ObjectStore,
        clock: MachineClock,
        leads: Callable[[int], bool],
        readings_of: Callable[[ObjectId], Mapping[PodPage, PageReading]],
    ) -> None:
        self._controllers = controllers
        self._store = store
        self._clock = clock
        self._leads = leads
        self._readings_of = readings_of
        self._memory = AppliedMemory()
        self._planner = ObjectPlanner(store, self._memory)
        self._announcer = Announcer()
        self._status: dict[str, tuple[str, str]] = {}
        """Hashes of the status that was written, and of what the API server made of it, by uid."""
        self._conflicts: dict[ObjectId, dict[tuple[str, str], str]] = {}

    def forget_object(self, uid: str) -> None:
        """Forget an object that is gone, a resource or one of its own."""
        self._memory.forget(uid)
        self._announcer.forget(uid)
        self._status.pop(uid, None)

    def conflicts_of(self, key: ObjectId) -> Mapping[tuple[str, str], str]:
        """Return what could not be made so in the last pass over a resource."""
        return self._conflicts.get(key, {})

    def run(self, key: ObjectId, epoch: int) -> Flow[Outcome]:
        """Run one pass; an error is an outcome with a reason."""
        outcome = Outcome()
        try:
            yield from self._run(key, epoch, outcome)
        except (ConflictError, NotFoundError) as error:
            outcome.result, outcome.reason = "stale", str(error)
        except UNAVAILABLE as error:
            outcome.result, outcome.reason = "unavailable", str(error)
        except ClusterError as error:
            outcome.result, outcome.reason = "refused", str(error)
        return outcome

    def _run(self, key: ObjectId, epoch: int, outcome: Outcome) -> Flow[None]:
        live = self._store.get(key)
        resource = live.document() if live is not None else {}
        deleting = bool(metadata_of(resource).get("deletionTimestamp"))
        if live is None or (deleting and not has_finalizer(resource)):
            outcome.result = "gone"
            self._conflicts.pop(key, None)
            return
        this = _Pass(key, resource, self._controllers[key.kind], epoch, outcome)
        owned = self._store.owned(key, live.metadata.uid, this.controller.owns)
        wanted = yield Decide(this.controller, self._observed(this, owned))
        if not isinstance(wanted, Reconciled):
            outcome.result, outcome.reason = "failed", f"the controller failed: {wanted}"
            return
        if not self._check(this):
            return
        outcome.again_after, outcome.pages = wanted.again_after, wanted.pages
        plan = self._planner.plan(resource, this.controller.owns, owned, wanted)
        conflicts = dict(plan.conflicts)
        has_objects = bool(owned) or any(change.action == "create" for change in plan.changes)
        if has_objects and not deleting and not has_finalizer(resource):
            yield from self._set_finalizer(this, present=True)
        refused = yield from self._carry_out(this, plan.changes)
        self._note(this, {**conflicts, **refused}, refused=bool(refused))
        yield from self._report(this, wanted)
        if deleting and wanted.is_finished and not refused and self._check(this):
            yield from self._set_finalizer(this, present=False)

    def _observed(self, this: _Pass, owned: Mapping[ObjectId, Document]) -> Observed:
        controller = this.controller
        return Observed(
            resource=shown(this.resource),
            owned={
                kind: tuple(shown(document) for key, document in owned.items() if key.kind == kind)
                for kind in controller.owns
            },
            watched={kind: self._store.watched(kind) for kind in controller.watches},
            now=self._clock.wall,
            conflicts=dict(self.conflicts_of(this.key)),
            pages=self._readings_of(this.key),
        )

    def _check(self, this: _Pass) -> bool:
        """Say whether the pass may write: still the same term."""
        if not self._leads(this.epoch):
            this.outcome.result = "stopped"
            return False
        return True

    def _carry_out(self, this: _Pass, changes: tuple[Change, ...]) -> Flow[dict[ObjectId, str]]:
        """Write the changes one after the other; return those that the API server refused."""
        refused: dict[ObjectId, str] = {}
        for change in changes:
            if not self._check(this):
                break
            try:
                reason = yield from self._write(this, change)
            except _REFUSED as error:
                reason = str(error)
            if reason:
                refused[change.key] = reason
        return refused

    def _write(self, this: _Pass, change: Change) -> Flow[str]:
        """Write one change; return why it was not made, empty where it was."""
        if change.action == "delete":
            try:
                yield writes.delete(change)
            except (NotFoundError, ConflictError):
                return ""  # it is gone, or another object has its name
            this.outcome.written.append(WrittenObject(change.key, change.uid, ""))
            return ""
        is_new = False
        if change.action == "create":
            try:
                there = codec.decode_document((yield writes.get(change.key)))
            except NotFoundError:
                is_new = True
            else:
                claimed = self._planner.claim(this.resource, change.key, change.body, there)
                if isinstance(claimed, str):
                    return claimed
                change = claimed
        live = codec.decode_document((yield writes.apply(change)))
        metadata = metadata_of(live)
        self._memory.note(metadata["uid"], live)
        written = WrittenObject(change.key, metadata["uid"], metadata["resourceVersion"], is_new)
        this.outcome.written.append(written)
        return ""

    def _note(self, this: _Pass, conflicts: Mapping[ObjectId, str], *, refused: bool) -> None:
        """Keep what could not be made so for the next pass, and say it in the outcome."""
        named = {(key.kind.kind, key.name): reason for key, reason in conflicts.items()}
        this.outcome.conflicts = named
        this.outcome.conflicts_changed = named.keys() != self.conflicts_of(this.key).keys()
        if named:
            self._conflicts[this.key] = named
        else:
            self._conflicts.pop(this.key, None)
        if named and this.outcome.result == "done":
            this.outcome.result = "refused" if refused else "conflict"
            this.outcome.reason = "; ".join(f"{kind} {name}: {text}" for (kind, name), text in named.items())

    def _report(self, this: _Pass, wanted: Reconciled) -> Flow[None]:
        """Write the status where it differs, and the events that were not written yet."""
        if wanted.status is not None and self._check(this):
            yield from self._set_status(this, codec.without_nulls(wanted.status))
        announcements = list(wanted.announcements)
        if this.outcome.conflicts:
            announcements.append(Announcement("Warning", "ObjectNotMade", this.outcome.reason))
        wall = format_time(self._clock.wall)
        for request in self._announcer.requests(this.resource, announcements, self._clock.now, wall):
            try:
                yield request
            except ClusterError:  # nothing depends on it
                continue

    def _set_status(self, this: _Pass, wanted: Mapping[str, Any]) -> Flow[None]:
        uid, live = metadata_of(this.resource)["uid"], this.resource.get("status") or {}
        patch = status_patch(live, wanted)
        if patch is None or self._status.get(uid) == (digest(wanted), digest(live)):
            return
        yield from self._update(this, writes.set_status(this.key, this.resource, patch))
        self._status[uid] = (digest(wanted), digest(this.resource.get("status") or {}))

    def _set_finalizer(self, this: _Pass, *, present: bool) -> Flow[None]:
        yield from self._update(this, writes.set_finalizer(this.key, this.resource, present=present))

    def _update(self, this: _Pass, request: QueriedRequest) -> Flow[None]:
        """Write the resource itself, and go on with what it is now."""
        this.resource = codec.decode_document((yield request))
        metadata = metadata_of(this.resource)
        this.outcome.written.append(WrittenObject(this.key, metadata["uid"], metadata["resourceVersion"]))
