"""What policies take of the measured use of whole accelerators: free memory, and how busy they are. Pure."""

from typing import Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.needs import prepares_by_use
from fairlead.schedule import Policy
from fairlead.series import Staleness
from fairlead.serve.scheduler.use import pod_facts
from fairlead.serve.scheduler.use.needs import NeedTracker
from fairlead.sizing.published import RULES, MeasuredFree, measured_free
from fairlead.use import DeviceKey

BUSY_STEP: Final = 0.1
"""Busy parts are rounded to this: every change costs a new score of the node."""


class MeasuredGrants:
    """Sets what was measured of accelerators in the engine, as far as the policy goes by it."""

    def __init__(self, cache: SchedulerCache, tracker: NeedTracker, policy: Policy) -> None:
        self._cache = cache
        self._tracker = tracker
        self._policy = policy.name
        self._by_busy = policy.price is not None
        self._busy: dict[DeviceKey, float] = {}
        self.grants: dict[DeviceKey, MeasuredFree] = {}

    def refresh(self, now: float) -> None:
        """Grant again by what was measured; on a node that cannot prepare such claims, nothing."""
        if self._by_busy:
            self._set_busy(now)
        if self._policy not in RULES or not self._tracker.rules.shares:
            return
        before, self.grants = self.grants, {}
        for key in self._tracker.history.devices():
            if prepares_by_use(self._cache.node(key.node)):
                self._grant(key, now)
        for key in before.keys() - self.grants.keys():
            self._cache.cluster.set_measured_free(key.node, key.device, None)
        if freed := {key.node for key, grant in self.grants.items() if grant.memory}:
            self._cache.recount((), freed)

    def _set_busy(self, now: float) -> None:
        """Set how busy accelerators are: a place that would be too slow for an SLO is none."""
        history, before = self._tracker.history, self._busy
        self._busy = {}
        for key in history.devices():
            series = history.device(key).busy
            if series.staleness(now, history.limits.fresh) is Staleness.FRESH:
                self._busy[key] = round((series.latest or 0.0) / BUSY_STEP) * BUSY_STEP
        for key in {**before, **self._busy}:
            if before.get(key) != self._busy.get(key):
                self._cache.cluster.set_measured_busy(key.node, key.device, self._busy.get(key))

    def _grant(self, key: DeviceKey, now: float) -> None:
        node = self._cache.cluster.node(key.node)
        memory = next((each.memory for each in node.devices if each.id == key.device), None) if node else None
        if not memory:
            return
        used = self._tracker.history.device(key).memory
        grant = self.grants[key] = measured_free(self._policy, memory, used, self._placed_at(key), now)
        self._cache.cluster.set_measured_free(key.node, key.device, grant.memory)

    def _placed_at(self, key: DeviceKey) -> float:
        """Return when a pod was last placed on an accelerator; 0: none is there."""
        times = (pod_facts.scheduled_at(pod) for pod, _ in self._tracker.runs_on(key))
        return max((time for time in times if time is not None), default=0.0)
