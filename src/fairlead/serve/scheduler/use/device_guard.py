"""Which pods must shrink or leave before the memory of an accelerator is full. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import LivePod
from fairlead.placement import Placement
from fairlead.series import Series, Staleness
from fairlead.serve.scheduler.use import pod_facts
from fairlead.serve.scheduler.use.needs import NeedTracker
from fairlead.sizing.guard import Evict, GuardedDevice, GuardedPod, GuardState, Shrink, protect
from fairlead.units import Bytes, format_bytes
from fairlead.use import DeviceKey, PodDeviceKey

WATCHED: Final = 0.7
"""The part of an accelerator's memory in use above which the guard forecasts."""
TREND: Final = 4
"""Samples from which the growth of a pod is taken."""
CRITICAL: Final = 2_000_000_000
"""The lowest priority of the cluster's own pods: they are never evicted."""


@dataclass(frozen=True, slots=True)
class GuardAction:
    """A pod to shrink or to evict, and why."""

    pod: LivePod
    device: DeviceKey
    action: Shrink | Evict
    used: Bytes
    """The measured use of the accelerator."""
    memory: Bytes

    @property
    def text(self) -> str:
        """The reason, for people: the accelerator, its measured use, and what the guard expects."""
        used, memory = format_bytes(self.used), format_bytes(self.memory)
        where = f"{self.device.device} of {self.device.node}"
        return f"{where} has {used} of {memory} in use; {self.action.reason}"


class DeviceGuard:
    """Watches every accelerator with measured use."""

    def __init__(self, cache: SchedulerCache, tracker: NeedTracker, scheduler: str) -> None:
        self._cache = cache
        self._tracker = tracker
        self._scheduler = scheduler
        self._states: dict[DeviceKey, GuardState] = {}

    def check(self, now: float) -> list[GuardAction]:
        """Return what must be done now on accelerators that are nearly full."""
        actions: list[GuardAction] = []
        measured = {DeviceKey(pod.node, pod.device) for pod in self._tracker.history.pods()}
        for key in sorted({*self._tracker.history.devices(), *measured, *self._states}):
            memory, used = self._memory(key), self._used(key, now)
            if memory and used is not None and (used >= WATCHED * memory or key in self._states):
                actions += self._check(key, Bytes(memory), used, now)
            else:
                self._states.pop(key, None)
        return actions

    def _check(self, key: DeviceKey, memory: Bytes, used: Bytes, now: float) -> list[GuardAction]:
        live = {pod.metadata.uid: pod for pod, _ in self._tracker.runs_on(key)}
        pods = tuple(self._guarded(pod, place, key, now) for pod, place in self._tracker.runs_on(key))
        # What no pod is known to hold counts as foreign: the accelerator is as full, whoever holds it.
        foreign = Bytes(max(0, used - sum(pod.use for pod in pods)))
        verdict = protect(GuardedDevice(memory, pods, foreign), self._states.get(key, GuardState()), now)
        if verdict.state.shrinks or verdict.state.evictions:
            self._states[key] = verdict.state
        else:
            self._states.pop(key, None)
        return [
            GuardAction(live[action.pod_uid], key, action, used, memory)
            for action in verdict.actions
            if action.pod_uid in live
        ]

    def _guarded(self, pod: LivePod, placement: Placement, key: DeviceKey, now: float) -> GuardedPod:
        series = self._tracker.history.pod(PodDeviceKey(pod.metadata.uid, *key)).memory
        use, footprint = self._latest(series, now), self._tracker.footprint(pod)
        ours = pod.spec.scheduler_name == self._scheduler and not pod.metadata.deletion_timestamp
        started = pod_facts.scheduled_at(pod)
        return GuardedPod(
            pod.metadata.uid,
            pod.metadata.namespace,
            pod.metadata.name,
            placement.request.priority,
            use or Bytes(0),
            growth(series) if use is not None else 0.0,
            pod_facts.limit_of(pod),
            footprint.least if footprint is not None else None,
            pod_facts.is_elastic(pod),
            ours and placement.request.priority < CRITICAL,
            now - started if started is not None else 0.0,
            need.peak if (need := self._tracker.need(pod.metadata.uid)) is not None else None,
            pod_facts.placed_memory(pod, key.device),
        )

    def _used(self, key: DeviceKey, now: float) -> Bytes | None:
        """Return the memory in use of an accelerator, or of its pods; None: it is not known, or stale."""
        history = self._tracker.history
        runs = self._tracker.runs_on(key)
        pods = [
            self._latest(history.pod(PodDeviceKey(pod.metadata.uid, *key)).memory, now) for pod, _ in runs
        ]
        known = [self._latest(history.device(key).memory, now), *pods]
        if all(size is None for size in known):
            return None
        return Bytes(max(known[0] or 0, sum(size or 0 for size in known[1:])))

    def _latest(self, series: Series, now: float) -> Bytes | None:
        """Return the last value of a series; None: it is missing or stale."""
        fresh = series.staleness(now, self._tracker.history.limits.fresh) is Staleness.FRESH
        return Bytes(round(series.latest or 0.0)) if fresh else None

    def _memory(self, key: DeviceKey) -> int:
        node = self._cache.cluster.node(key.node)
        devices: Iterable[tuple[str, int]] = ((each.id, each.memory) for each in node.devices) if node else ()
        return dict(devices).get(key.device, 0)


def growth(series: Series) -> float:
    """Return the bytes per second by which the last samples grew."""
    values, times = series.values[-TREND:], series.times[-TREND:]
    if len(values) < 2 or times[-1] <= times[0]:
        return 0.0
    return max(0.0, (values[-1] - values[0]) / (times[-1] - times[0]))
