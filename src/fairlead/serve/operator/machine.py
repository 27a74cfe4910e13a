"""The operator as a state machine: events in, effects out. Pure.

    changes of objects -> store -> queue -> one pass at a time over each resource -> effects
        ^                                                                                |
        +-------------------- the API server <- driver (performs them) <----------------+

Nothing here reads a clock, a file or a socket: the same events at the same times give the same effects.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import ClusterError
from fairlead.reconcile import PageReading, PodPage, ResourceController, ResourceKind
from fairlead.serve.leader.election import LeaderElection, LeaderTerm
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.events import Start, Stop, Tick
from fairlead.serve.machine.flow import Answered, Effect, Flow, Flows, Log
from fairlead.serve.operator.kinds import ObjectId
from fairlead.serve.operator.metrics import OperatorGauges, OperatorMetrics
from fairlead.serve.operator.pages import PageSchedule, ReadPage
from fairlead.serve.operator.queue import FailureDelay, WorkQueue
from fairlead.serve.operator.reconciler import Outcome, Reconciler
from fairlead.serve.operator.store import ObjectStore
from fairlead.settings.operator import OperatorSettings

_DRAIN: Final = 20.0
"""Seconds for which passes in flight may finish when the program is stopped."""
_UNOBSERVED: Final = 5.0
"""Seconds after which a pass no longer waits for the watch to show what it wrote."""
_AWAY: Final = 5.0
"""The longest delay after a pass that did not reach the API server: when it is back, none waits long."""
_CONFLICT_RETRY: Final = 30.0


@dataclass(frozen=True, slots=True)
class CachesSynced:
    """Every object was listed."""


Event = ObjectChange[Any] | Answered | Start | CachesSynced | Tick | Stop


@dataclass(frozen=True, slots=True)
class _Unobserved:
    """A pass whose writes the store does not show yet."""

    outcome: Outcome
    until: float


class OperatorMachine:
    """One replica."""

    def __init__(self, controllers: Sequence[ResourceController], settings: OperatorSettings) -> None:
        self._settings = settings
        self._controllers = {one.resource: one for one in controllers}
        self._flows = Flows()
        self._clock = MachineClock()
        self.store = ObjectStore(controllers)
        self.election = LeaderElection(self._flows, self._clock, settings.me, settings.lease)
        self._queue = WorkQueue(FailureDelay(settings.initial_backoff, settings.max_backoff))
        self._pages = PageSchedule()
        self._reconciler = Reconciler(
            self._controllers, self.store, self._clock, self.election.leads, self._pages.readings_of
        )
        self.metrics = OperatorMetrics()
        self.epoch = 0
        """The epoch for which every resource was queued; 0: this replica does not lead."""
        self._in_flight = 0
        """Passes that wait for an answer."""
        self._unobserved: dict[ObjectId, _Unobserved] = {}
        self._logged: dict[ObjectId, str] = {}
        """Why a resource could not be reconciled, as it was logged last."""
        self._changed_kinds: set[ResourceKind] = set()
        """Watched kinds of which an object has changed."""
        self._watches_after = 0.0
        self._synced = self._resigning = False
        self._stop_by: float | None = None
        self.finished = False
        """Whether the program can end."""
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            ObjectChange: self._on_change,
            Answered: self._flows.resume,
            Start: self._on_start,
            CachesSynced: self._on_synced,
            Tick: self._on_tick,
            Stop: self._on_stop,
        }

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle an event, and return its effects; `now` is in seconds, by a clock that no person sets."""
        self._clock.now = now
        self._handlers[type(event)](event)
        if self._synced:
            self._follow_term()
        while self._may_begin() and (key := self._queue.take()) is not None:
            self._in_flight += 1
            self._flows.start(self._pass(key, self.epoch))
        if self._stop_by is not None and not self._resigning:
            self._resign_when_drained(now, self._stop_by)
        return self._flows.take()

    @property
    def term(self) -> LeaderTerm | None:
        """The term of this replica; None while it does not lead."""
        return self.election.term

    def gauges(self, now: float) -> OperatorGauges:
        """Return the state of this replica, for metrics."""
        self._clock.now = now
        counts = {kind.plural: self.store.count(kind) for kind in self._controllers}
        epoch = self.term.epoch if self.term is not None else 0
        return OperatorGauges(
            self.term is not None, epoch, self._queue.lengths(), counts, self.store.readiness()
        )

    # Events

    def _on_start(self, event: Start) -> None:
        self._clock.set_wall(event.wall)

    def _on_synced(self, event: CachesSynced) -> None:
        self._synced = True
        self._log("caches are synced; waiting to lead")
        self._flows.start(self.election.run())

    def _on_change(self, change: ObjectChange[Any]) -> None:
        affected, now = self.store.on_change(change), self._clock.now
        if self.epoch:  # a term begins with every resource
            self._queue.add_all(affected.changed, now)
            for key in affected.urgent:
                self._queue.add_urgent(key, now)
            if affected.watched is not None:
                self._changed_kinds.add(affected.watched)
        for key in affected.changed:
            self._finish_if_observed(key)
        if change.new is None:  # an object with another uid comes as two changes
            self._reconciler.forget_object(change.object.metadata.uid)

    def _on_tick(self, event: Tick) -> None:
        self._clock.set_wall(event.wall)
        now = self._clock.now
        self._queue.flush_due(now)
        for key in [key for key, waits in self._unobserved.items() if waits.until <= now]:
            self._finish(key)
        if self._stop_by is None:
            for key, page in self._pages.take_due(now):
                self._flows.start(self._read(key, page))
        if self._changed_kinds and now >= self._watches_after:
            self._watches_after = now + self._settings.watch_period
            changed, self._changed_kinds = self._changed_kinds, set()
            for kind, controller in self._controllers.items():
                if changed.intersection(controller.watches):
                    self._queue.add_all(self.store.names(kind), now)

    def _on_stop(self, event: Stop) -> None:
        self._stop_by = self._clock.now + _DRAIN

    # Terms

    def _follow_term(self) -> None:
        """Queue every resource where a term begins; drop the queue where it is over."""
        epoch = self.term.epoch if self.term is not None else 0
        if epoch == self.epoch:
            return
        if self.epoch and not self._resigning:
            self._log(f"leads no more, epoch {self.epoch}")
        self.epoch = epoch
        self._queue.clear()
        self._pages.clear()
        self._changed_kinds.clear()
        if epoch:
            self._log(f"leading, epoch {epoch}")
            for kind in self._controllers:
                self._queue.add_all(self.store.names(kind), self._clock.now)

    def _may_begin(self) -> bool:
        return bool(self.epoch) and self._stop_by is None and self._in_flight < self._settings.workers

    # Passes

    def _pass(self, key: ObjectId, epoch: int) -> Flow[None]:
        began = self._clock.now
        outcome = yield from self._reconciler.run(key, epoch)
        self._in_flight -= 1
        self.metrics.passes[key.kind.plural, outcome.result] += 1
        self.metrics.seconds.observe(self._clock.now - began)
        self._unobserved[key] = _Unobserved(outcome, self._clock.now + _UNOBSERVED)
        self._finish_if_observed(key)

    def _read(self, key: ObjectId, page: PodPage) -> Flow[None]:
        """Read a page that a controller asked for, and let the controller see it."""
        body, error = yield ReadPage(page)
        self.metrics.pages["failed" if error else "read"] += 1
        if self._pages.put(key, page, PageReading(self._clock.wall, body, error)):
            self._queue.add(key, self._clock.now)

    def _finish_if_observed(self, key: ObjectId) -> None:
        waits = self._unobserved.get(key)
        if waits is not None and all(map(self.store.has_seen, waits.outcome.written)):
            self._finish(key)

    def _finish(self, key: ObjectId) -> None:
        """End a pass, and say when the next one comes."""
        outcome, now = self._unobserved.pop(key).outcome, self._clock.now
        if outcome.pages is not None:
            self._pages.ask(key, outcome.pages, now)
        if outcome.result == "gone":
            self._queue.forget(key)
            self._pages.ask(key, {}, now)
            self._logged.pop(key, None)
        elif outcome.result in ("done", "stopped"):
            self._queue.done(key, now, outcome.again_after)
            self._logged.pop(key, None)
        elif (
            outcome.result == "conflict"
        ):  # nothing was refused: the pass goes on as soon as an object changes
            again = _CONFLICT_RETRY if outcome.again_after is None else outcome.again_after
            self._queue.done(key, now, min(again, _CONFLICT_RETRY))
            self._log_once(key, outcome)
        else:
            longest = _AWAY if outcome.result == "unavailable" else self._settings.max_backoff
            self._queue.failed(key, now, longest)
            self._log_once(key, outcome)
        if outcome.conflicts_changed:  # the controller has not seen them yet
            self._queue.add(key, now)

    def _log_once(self, key: ObjectId, outcome: Outcome) -> None:
        if outcome.result not in ("stale", "unavailable") and self._logged.get(key) != outcome.reason:
            self._logged[key] = outcome.reason
            self._log(f"{key}: {outcome.reason}")

    # The end

    def _resign_when_drained(self, now: float, stop_by: float) -> None:
        """Resign once the passes in flight have ended; where all have, the next leader may begin at once."""
        if self._in_flight and now < stop_by:
            return
        self._resigning = True
        clean = not self._in_flight and bool(self.epoch)
        self._flows.start(self._resign(self.epoch if clean else None))

    def _resign(self, finished: int | None) -> Flow[None]:
        try:
            yield from self.election.resign(finished)
        except ClusterError as error:
            self._log(f"cannot release the Lease: {error}")
        self._log("stopped" if finished is None else "stopped; released the Lease")
        self.finished = True

    def _log(self, line: str) -> None:
        self._flows.emit(Log(line))
