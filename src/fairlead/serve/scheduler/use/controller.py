"""The part of the scheduler's state machine that shares accelerators by measured use. Pure.

UsageRefreshed -> needs, grants of published rules -> the guard -> shrinks, evictions
begin to lead  -> learned sizes are read; while leading they are written, at most once a minute
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import LivePod
from fairlead.cluster.times import format_time
from fairlead.manifest.pod.workload_key import workload_keys
from fairlead.metrics import MetricFamily
from fairlead.need import Need
from fairlead.schedule import Policy
from fairlead.series import Staleness
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Flow
from fairlead.serve.scheduler.bind import evict, writes
from fairlead.serve.scheduler.bind.evict import Evictor
from fairlead.serve.scheduler.bind.requests import send_once
from fairlead.serve.scheduler.events import UsageRefreshed
from fairlead.serve.scheduler.report import conditions
from fairlead.serve.scheduler.report.metrics import UseGauges
from fairlead.serve.scheduler.use import pod_facts
from fairlead.serve.scheduler.use.device_guard import DeviceGuard, GuardAction
from fairlead.serve.scheduler.use.grants import MeasuredGrants
from fairlead.serve.scheduler.use.needs import NeedRules, NeedTracker
from fairlead.serve.scheduler.use.store import LearnedStore, learned_text
from fairlead.settings.scheduler import SchedulerSettings
from fairlead.sizing.footprint import FootprintBook
from fairlead.sizing.guard import Shrink
from fairlead.units import format_bytes, pluralize
from fairlead.usage import metrics

PATIENCE: Final = 10.0
"""Seconds after the start for which decisions wait for the first report."""
_FIGURES: Final = re.compile(r"[0-9]+(?:[.][0-9]+)?")
SAVE_EVERY: Final = 60.0
"""Seconds between two writes of the learned sizes."""


@dataclass(frozen=True, slots=True)
class MachineParts:
    """What the controller uses of the state machine."""

    clock: MachineClock
    cache: SchedulerCache
    evictor: Evictor
    leads: Callable[[], bool]
    """Whether this replica decides now."""
    epoch: Callable[[], int]
    begin: Callable[[Flow[None]], None]
    """Starts a flow that must end before another replica may lead."""
    log: Callable[[str], None]


class UseController:
    """Shares accelerators by measured use, where the settings name a source of it."""

    def __init__(self, parts: MachineParts, settings: SchedulerSettings, policy: Policy) -> None:
        self._parts = parts
        self.policy = policy
        self._reads = settings.usage
        self.enabled = settings.usage or bool(policy.telemetry)
        """Whether anything depends on measured use; else nothing is read, derived or written."""
        rules = NeedRules(policy.needs, settings.own_claims, settings.oom_bound, settings.usage_period)
        self.tracker = NeedTracker(parts.cache, rules)
        self._grants = MeasuredGrants(parts.cache, self.tracker, policy)
        self._guard = DeviceGuard(parts.cache, self.tracker, settings.name)
        self._store = LearnedStore(settings.lease.namespace, parts.log)
        self.actions: Counter[str] = Counter({"shrink": 0, "evict": 0})
        self._decides_at = 0.0
        self._saved_at = 0.0
        self._saving = False
        self._reported = ""

    def on_synced(self, *, claims: bool) -> None:
        """Take note of whether the API server serves claims: without them, requests decide."""
        rules = self.tracker.rules
        self._decides_at = self._parts.clock.now + PATIENCE if self._reads else 0.0
        self.tracker.rules = replace(rules, shares=rules.shares and claims)
        self._parts.cache.needs.shrinks = rules.every_pod and self.tracker.rules.shares

    def may_decide(self) -> bool:
        """Say whether decisions need not wait for the first report: right after the start all is unknown."""
        return self._parts.clock.now >= self._decides_at

    def on_report(self, event: UsageRefreshed) -> None:
        """Take measured use, and act on it where this replica decides."""
        self.tracker.history.on_report(event.report())
        if (
            self._wall() - event.at <= 2 * self.tracker.rules.period
        ):  # else it tells of the time before the start
            self._refresh()
            self._decides_at = 0.0

    def on_tick(self) -> None:
        """Notice that no report came; save what was learned."""
        if not self.enabled:
            return
        if self._wall() - self.tracker.now > 1.5 * self.tracker.rules.period:
            self._refresh()
        due = self._parts.clock.now - self._saved_at >= SAVE_EVERY
        if due and self._parts.leads() and not self._saving:
            self._saved_at, self._saving = self._parts.clock.now, True
            self._parts.begin(self.save())

    def load(self) -> Flow[None]:
        """Read what earlier leaders learned."""
        if not self.enabled:
            return
        learned = yield from self._store.load()
        if learned is not None:
            self.tracker.book = FootprintBook(learned.footprints)
            self.tracker.undone = set(learned.undone)
            known = pluralize(len(learned.footprints), "workload")
            self._parts.log(f"read the learned sizes of {known}")
            self._refresh()

    def save(self) -> Flow[None]:
        """Write what was learned, if that has changed."""
        if self.enabled:
            yield from self._store.save(learned_text(self.tracker.book, self.tracker.undone))
        self._saving = False

    def describe(self, uid: str) -> dict[str, Any]:
        """Return the need of a pod and the state of the measurements, for an explanation."""
        need = self.tracker.need(uid)
        described = {"need": need_document(need) if need is not None else {}}
        return {**described, "telemetry": self.tracker.status.to_json()}

    def note(self, uid: str) -> str:
        """Return what an explanation adds about a pod's need; empty: it has none, or nothing is measured."""
        if not self.enabled:
            return ""
        need, status = self.tracker.need(uid), self.tracker.status
        text = f"measured use is {status.staleness.value}{f': {status.reason}' if status.reason else ''}"
        if need is None:
            return "" if status.staleness is Staleness.FRESH else text
        size = f"it counts for {format_bytes(need.peak)} at most, by {need.source.value}"
        return f"{size}{f' ({need.note})' if need.note else ''}; {text}"

    def gauges(self) -> UseGauges | None:
        """Return the state for metrics; None: nothing depends on measured use."""
        if not self.enabled:
            return None
        tracker = self.tracker
        families = tuple(MetricFamily(*family) for family in metrics.families(tracker.status))
        return UseGauges(
            tracker.needs_by_source(), tracker.counts.surprises, self.actions, len(tracker.book), families
        )

    def on_bound(self, plan: writes.BindingPlan) -> Flow[None]:
        """Report that a pod was placed by the learned size of its workload."""
        need, request = plan.placement.request.need, plan.placement.request
        if need is None or not pod_facts.is_rightsized(plan.pod) or request.demand.memory is None:
            return
        text = (
            f"Placed by {format_bytes(need.peak)} of each accelerator, learned from its workload, instead of "
            f"the {format_bytes(request.demand.memory)} that it requests"
        )
        yield from send_once(conditions.event(plan.pod, "Normal", "RightSized", text, self._time()))

    def _refresh(self) -> None:
        now, leads = self._wall(), self._parts.leads()
        self.tracker.refresh(now, learn=leads)
        self._grants.refresh(now)
        self._log_status()
        crashes, self.tracker.counts.crashes = self.tracker.counts.crashes, []
        if not leads:
            return
        for pod in crashes:
            self._on_crash(pod)
        for action in self._guard.check(now) if self.policy.needs else ():  # published rules have no guard
            self._parts.begin(self._act(action, self._parts.epoch()))

    def _log_status(self) -> None:
        """Log why measurements are missing, when the state or the reason changes, whatever its figures."""
        status = self.tracker.status
        why = f": {status.reason}" if status.reason else ""
        text = f"measured use is {status.staleness.value}{why}"
        if (shape := _FIGURES.sub("0", text)) != self._reported:
            self._reported = shape
            self._parts.log(text)

    def _on_crash(self, pod: LivePod) -> None:
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._parts.log(f"pod {name} crashed by lack of memory: its workload gets more from now on")
        if not pod_facts.is_rightsized(pod) or not self.tracker.undone.isdisjoint(workload_keys(pod)):
            return
        self.tracker.undone |= set(workload_keys(pod))
        text = "A container ended by lack of memory: pods of this workload are placed by their requests again"
        report = conditions.event(pod, "Warning", "RightSizeUndone", text, self._time())
        self._parts.begin(_send(report))

    def _act(self, action: GuardAction, epoch: int) -> Flow[None]:
        pod, kind = action.pod, "shrink" if isinstance(action.action, Shrink) else "evict"
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if isinstance(action.action, Shrink):
            size = action.action.to
            done = yield from send_once(writes.limit_memory(pod, size))
            problem = "" if done else "its limit could not be written"
            text = f"Must stay inside {format_bytes(size)}: {action.text}. A framework that reads its limit "
            text += "at its start does not follow"
        else:
            cause = evict.for_memory("/".join(action.device), action.text)
            problem = yield from self._parts.evictor.evict(pod, cause, epoch, lambda: True)
            text = f"Evicted before an allocation fails: {action.text}"
        if problem:
            self._parts.log(f"did not {kind} pod {name}: {problem}")
            return
        self.actions[kind] += 1
        self._parts.log(f"{kind} pod {name}: {action.text}")
        reason = "MemoryLimitLowered" if kind == "shrink" else "AcceleratorMemoryLow"
        yield from send_once(conditions.event(pod, "Warning", reason, text, self._time()))

    def _wall(self) -> float:
        return self._parts.clock.wall.timestamp()

    def _time(self) -> str:
        return format_time(self._parts.clock.wall)


def need_document(need: Need) -> dict[str, Any]:
    """Return a need as the fields of an explanation."""
    return {
        "source": need.source.value,
        "firm": need.firm,
        "peak_bytes": need.peak,
        "note": need.note,
    }


def _send(report: Any) -> Flow[None]:
    yield from send_once(report)
