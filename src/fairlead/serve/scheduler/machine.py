"""The scheduler as a state machine: events in, effects out. Pure.

    changes of objects -> cache -> queue -> engine -> plans -> effects
        ^                                                        |
        +------- the API server <- driver (performs them) <------+

Nothing here reads a clock, a file or a socket: the same events at the same times give the same effects.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import LiveClaim, LivePod
from fairlead.cache.volumes import VolumeBinding
from fairlead.catalog import Catalog
from fairlead.cluster.times import format_time
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import ClusterError
from fairlead.schedule import policy_named
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.events import Start, Stop, Tick
from fairlead.serve.machine.flow import Answered, Effect, Flow, Flows, Log, Sleep, Together
from fairlead.serve.scheduler.bind import evict, writes
from fairlead.serve.scheduler.bind.binder import Binder
from fairlead.serve.scheduler.bind.requests import Fences, gather, send_once
from fairlead.serve.scheduler.bind.writes import BindingPlan
from fairlead.serve.scheduler.cycle.preemption import Preemption
from fairlead.serve.scheduler.cycle.queue import SchedulingQueue
from fairlead.serve.scheduler.cycle.scheduling import SchedulingCycle
from fairlead.serve.scheduler.effects import Explained, Report
from fairlead.serve.scheduler.events import Announce, Cycle, Event, Explain, Synced, UsageRefreshed
from fairlead.serve.scheduler.leader.election import SchedulerElection, SchedulerTerm
from fairlead.serve.scheduler.leader.failover import Failover
from fairlead.serve.scheduler.leader.tracker import InFlightTracker
from fairlead.serve.scheduler.report import conditions, podgroup_status
from fairlead.serve.scheduler.report.explain import Explainer
from fairlead.serve.scheduler.report.metrics import SchedulerGauges
from fairlead.serve.scheduler.report.pending import pending_reports
from fairlead.serve.scheduler.use.controller import MachineParts, UseController
from fairlead.settings.scheduler import SchedulerSettings
from fairlead.units import pluralize

_DRAIN: Final = 20.0
"""Seconds for which flows in flight may finish when the program is stopped."""
_RETRY_VOLUME: Final = 5.0
"""Seconds before a failed write for a volume is retried."""
_RETRY_FAILOVER: Final = 0.5
_LOGGED_NODES: Final = 5
"""Unreadable nodes that are logged one by one."""


class SchedulerMachine:
    """One replica."""

    def __init__(self, catalog: Catalog, settings: SchedulerSettings) -> None:
        self._settings = settings
        self._flows = Flows()
        self._clock = MachineClock()
        self._nonces = 0
        self._seed = ""
        self.cache = SchedulerCache(catalog, settings.name)
        policy = policy_named(settings.policy)
        self._queue = SchedulingQueue(
            settings.initial_backoff, settings.max_backoff, largest_first=policy.queue == "largest"
        )
        self.cycle = SchedulingCycle(self.cache, self._queue, policy, own_claims=settings.own_claims)
        self.election = SchedulerElection(
            self._flows,
            self._clock,
            settings.me,
            settings.lease,
            self.cache.leader_marks,
            self.cache.has_bound_pods,
        )
        self._fences = Fences(self._log, self._nonce)
        self._binder = Binder(self.election.leads, self._fences)
        self._evictor = evict.Evictor(self.election.leads, self._clock)
        self._tracker = InFlightTracker(self.election, self.cache, self._queue, self._clock)
        self.use = UseController(self._parts(), settings, policy)
        self._explainer = Explainer(self.cycle, settings.me, settings.name, self.use)
        self.epoch = 0
        """The epoch for which failover is complete."""
        self._unreadable_nodes: frozenset[str] = frozenset()
        """Nodes that cannot be read, and that were logged."""
        self._barred = ""
        """Why this replica does not acquire a free Lease, as it was logged last."""
        self.in_flight = 0
        """Flows that must end before another replica may lead."""
        self._synced = self._changed = self._failing_over = self._reporting = self._resigning = False
        self._claims = False
        self._stop_by: float | None = None
        self.finished = False
        """Whether the program can end."""
        self._handlers = self._handlers_by_event()

    def _parts(self) -> MachineParts:
        return MachineParts(
            self._clock, self.cache, self._evictor, self._leads, lambda: self.epoch, self._begin, self._log
        )

    def _handlers_by_event(self) -> Mapping[type, Callable[[Any], None]]:
        return {
            ObjectChange: self.cache.on_event,
            Answered: self._flows.resume,
            Start: self._on_start,
            Synced: self._on_synced,
            Tick: self._on_tick,
            Explain: self._on_explain,
            Announce: self._on_announce,
            Stop: self._on_stop,
            UsageRefreshed: self.use.on_report,
        }

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle an event, and return its effects; `now` is in seconds, by a clock that no person sets."""
        self._clock.now = now
        if isinstance(event, Cycle):
            self._on_cycle(now)
        else:
            self._changed = True
            self._handlers[type(event)](event)
        if self._stop_by is not None and not self._resigning:
            self._resign_when_drained(now, self._stop_by)
        return self._flows.take()

    def ready(self, now: float) -> bool:
        """Say whether a `Cycle` would do something."""
        self._clock.now = now
        return self._synced and (self._changed or (self._queue.has_active and self._may_decide()))

    @property
    def term(self) -> SchedulerTerm | None:
        """The term of this replica; a pod with a higher epoch, or a mark of a newer format, shows its end."""
        term = self.election.term
        marks = self.cache.leader_marks
        over = term is None or marks.epoch > term.epoch or marks.newer
        return None if over else term

    def gauges(self, now: float) -> SchedulerGauges:
        """Return the state of this replica, for metrics."""
        self._clock.now = now
        pending: dict[str, int] = {**self._queue.pods_by_queue(), "in-flight": self.in_flight}
        nodes = len(self.cache.cluster.rows())
        unreadable, barred = len(self.cache.read_errors), bool(self.election.barred)
        use = self.use.gauges()
        return SchedulerGauges(self.term is not None, self.epoch, pending, nodes, unreadable, barred, use)

    # Events

    def _on_start(self, event: Start) -> None:
        self._seed = event.nonce
        self._clock.set_wall(event.wall)

    def _on_synced(self, event: Synced) -> None:
        self._synced, self._claims = True, event.claims
        self.use.on_synced(claims=event.claims)
        self.cycle.own_claims = self._settings.own_claims and event.claims
        self._log("caches are synced; waiting to lead")
        self._flows.start(self.election.run())

    def _on_announce(self, event: Announce) -> None:
        self.election.annotations = event.annotations

    def _on_tick(self, event: Tick) -> None:
        self._clock.set_wall(event.wall)
        self._queue.flush_expired(self._clock.now)
        if self.election.barred != self._barred:
            self._barred = self.election.barred
            if self._barred:
                self._log(f"does not take the free Lease: {self._barred}; upgrade this replica")
        self._log_unreadable_nodes()
        self.use.on_tick()
        if self.term is not None and not self._reporting:
            reports = pending_reports(self.cycle, self._clock.now, self._time())
            if reports:
                self._reporting = True
                self._flows.start(self._report(reports))

    def _log_unreadable_nodes(self) -> None:
        """Log why nodes take no pods: each node once, and not too many at a time."""
        errors = self.cache.read_errors
        new = sorted(errors.keys() - self._unreadable_nodes)
        for name in new[:_LOGGED_NODES]:
            self._log(f"node {name} takes no pods: {errors[name]}")
        if len(new) > _LOGGED_NODES:
            self._log(f"{len(new) - _LOGGED_NODES} more nodes take no pods: they cannot be read")
        if new or len(errors) != len(self._unreadable_nodes):
            self._unreadable_nodes = frozenset(errors)

    def _on_explain(self, event: Explain) -> None:
        decides = self._leads()
        before = self._explainer.searches
        answer = self._explainer.answer(event, self._clock.now) if decides else {}
        self._flows.emit(Explained(answer, self._explainer.searches > before))

    def _leads(self) -> bool:
        return self.term is not None and self.election.leads(self.epoch)

    def _on_stop(self, event: Stop) -> None:
        self._stop_by = self._clock.now + _DRAIN

    def _on_cycle(self, now: float) -> None:
        if self._changed:
            self._changed = False
            self._refresh(now)
        term = self.term
        if term is None or term.epoch != self.epoch:
            self.cycle.drop_nominations()
            if term is not None and not self._failing_over and self._stop_by is None:
                self._failing_over = True
                self._flows.start(self._fail_over(term))
        elif self._queue.has_active and self._may_decide():
            self._decide(now)

    def _refresh(self, now: float) -> None:
        delta = self.cycle.refresh(now)
        for uid, pod in delta.orphaned:
            self._begin(self._drop_orphan(uid, pod))
        if self.cycle.unreadable and self.election.leads(self.epoch):
            new = [each.id for each in delta.pending if each.id in self.cycle.unreadable]
            self._deallocate_stranded(self.cycle.stranded(new))

    def _may_decide(self) -> bool:
        term = self.term
        return (
            term is not None
            and term.epoch == self.epoch
            and self._stop_by is None
            and self.in_flight < 2 * self._settings.in_flight
            and self.use.may_decide()
        )

    def _decide(self, now: float) -> None:
        result, epoch = self.cycle.run(now), self.epoch
        for preemption in result.preemptions:
            self._begin(self._preempt(preemption, epoch))
        for uid, binding in result.volumes:
            self._flows.start(self._bind_volume(uid, binding))
        self._deallocate_stranded(result.stranded)
        if result.plans:
            self._begin(self._bind(result.plans, epoch))

    # Flows

    def _begin(self, flow: Flow[None]) -> None:
        """Start a flow that must end before another replica may lead."""
        self.in_flight += 1
        self._flows.start(flow, self._ended)

    def _ended(self) -> None:
        self.in_flight -= 1
        self._changed = True

    def _fail_over(self, term: SchedulerTerm) -> Flow[None]:
        self._log(f"leading, epoch {term.epoch}")
        failover = Failover(
            self.cache, self._binder, self._fences, self._clock, self._settings.name, self._claims
        )
        try:
            fenced = yield from failover.fence_previous(term)
            yield from self._tracker.begin_term(term.epoch)
            yield from self.use.load()
        except ClusterError as error:
            self._log(f"failover failed, retrying: {error}")
            yield Sleep(_RETRY_FAILOVER)
        else:
            self._log(f"deciding; fenced {pluralize(fenced, 'pending pod')} of the previous leader")
            self.epoch = term.epoch
            self._refresh(self._clock.now)
            self.cycle.prioritize_partly_bound_gangs()
            self._deallocate_stranded(self.cycle.stranded(sorted(self.cycle.unreadable)))
        self._failing_over = False

    def _bind(self, plans: Sequence[BindingPlan], epoch: int) -> Flow[None]:
        began = self._clock.now
        fenced = [plan.pod for plan in plans if plan.fenced]
        try:
            failed = yield from self._tracker.track(fenced, epoch, self._binder.bind(plans, epoch))
        except ClusterError as error:
            failed = {plan.uid: str(error) for plan in plans}
        for plan in plans:
            if plan.uid in failed:
                self._log(f"{_name(plan.pod)}: {failed[plan.uid]}")
                self.cycle.record_failure(plan.uid, self._clock.now, partly_bound=len(failed) < len(plans))
                continue
            self.cycle.metrics.binding.observe(self._clock.now - began)
            if self.cache.pod(plan.uid) is None:  # it was deleted as soon as it was bound
                yield from self._binder.drop_claims(
                    plan.pod, [name for _, name in plan.claims_to_allocate], epoch
                )
            self.cycle.record_bound(plan.uid, self._clock.now)
            yield from self.use.on_bound(plan)
        bound = [plan for plan in plans if plan.uid not in failed]
        group = self.cache.group_of(bound[0].pod) if bound else None
        if group is not None or any(plan.fenced for plan in bound):
            for report in podgroup_status.report_bound(bound, group, self._time()):
                yield from send_once(report)

    def _drop_orphan(self, uid: str, pod: LivePod) -> Flow[None]:
        """Deallocate the claims of a pod that was deleted before the cache observed them."""
        yield from self._binder.drop_claims(pod, self.cache.unobserved.claims(uid), self.epoch)
        self.cache.forget(uid)

    def _deallocate_stranded(self, stranded: Sequence[tuple[LivePod, LiveClaim]]) -> None:
        for pod, claim in stranded:
            self._begin(self._deallocate(pod, claim, self.epoch))

    def _deallocate(self, pod: LivePod, claim: LiveClaim, epoch: int) -> Flow[None]:
        """Deallocate the claim of a pending pod; if this replica stops in between, the next leader does."""
        try:
            yield from self._tracker.track([pod], epoch, self._binder.deallocate(claim, pod, epoch))
        except ClusterError:
            return

    def _preempt(self, preemption: Preemption, epoch: int) -> Flow[None]:
        """Nominate preemptors to their nodes, then evict their victims: all of them, or none."""
        for pod, node in preemption.nominated:
            yield from send_once(evict.nominate(pod, node))
        victims = preemption.victims
        for victim in victims if len(victims) > 1 else ():
            problem = yield from evict.refusal(victim)
            if problem:
                self._log(f"did not evict pod {_name(victim)}: {problem}")
                self.cycle.record_eviction(victim.metadata.uid, problem, self._clock.now)
        yield from gather([self._evict(victim, epoch) for victim in victims])

    def _evict(self, victim: LivePod, epoch: int) -> Flow[None]:
        uid, name = victim.metadata.uid, _name(victim)
        preemptor = ", ".join(map(_name, self.cycle.preemptions.preemptors_of(uid)))
        needed = partial(self.cycle.preemptions.is_needed, uid)
        cause = evict.for_preemptor(preemptor)
        problem = yield from self._evictor.evict(victim, cause, epoch, needed)
        self.cycle.record_eviction(uid, problem, self._clock.now)
        if problem:
            self._log(f"did not evict pod {name}: {problem}")
            return
        self._log(f"evicted pod {name} to make room for {preemptor}")
        text = f"Preempted to make room for {preemptor}"
        yield from send_once(conditions.event(victim, "Normal", "Preempted", text, self._time()))

    def _bind_volume(self, uid: str, binding: VolumeBinding) -> Flow[None]:
        """Reserve a volume, or have one provisioned; where the write fails, requeue the pod later."""
        if not (yield from send_once(writes.bind_volume(binding))):
            name = "/".join(binding.claim.key)
            self._log(f"{name}: cannot write its volume for node {binding.node}")
            yield Sleep(_RETRY_VOLUME)
            self.cache.requeue_waiting_for_volumes(uid)

    def _report(self, reports: Sequence[Report]) -> Flow[None]:
        yield Together(tuple(map(send_once, reports)))
        self._reporting = False

    def _resign_when_drained(self, now: float, stop_by: float) -> None:
        """Resign once the flows in flight have ended; where all have, the next leader may begin at once."""
        if self.in_flight and now < stop_by:
            return
        self._resigning = True
        term = self.term
        clean = not self.in_flight and term is not None and term.epoch == self.epoch
        self._flows.start(self._resign(self.epoch if clean else None))

    def _resign(self, finished: int | None) -> Flow[None]:
        try:
            if finished is not None:
                yield from self.use.save()
            yield from self.election.resign(finished)
        except ClusterError as error:
            self._log(f"cannot release the Lease: {error}")
        self._log("stopped" if finished is None else "stopped; released the Lease")
        self.finished = True

    def _time(self) -> str:
        return format_time(self._clock.wall)

    def _log(self, line: str) -> None:
        self._flows.emit(Log(line))

    def _nonce(self) -> str:
        """Return a text that no other write carries: a write that changes nothing would fence nothing."""
        self._nonces += 1
        return hashlib.sha256(f"{self._seed} {self._nonces}".encode()).hexdigest()[:8]


def _name(pod: LivePod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
