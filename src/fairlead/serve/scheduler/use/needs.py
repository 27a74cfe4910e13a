"""The needs of pods in a live cluster: from measured use and learned sizes, or the plain request. Pure.

    report -> history -> need of every pod -> pending pods are read again, bound pods count otherwise
                 +-----> learned sizes

Where the measurements are missing or stale, every pod counts by its request, and its need says why.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.needs import carried
from fairlead.cache.types import LivePod
from fairlead.manifest.pod.workload_key import workload_keys
from fairlead.need import DEFAULT_BOUND, Need, NeedSource, effective_size
from fairlead.placement import Placement
from fairlead.request import Request
from fairlead.series import Series, Staleness
from fairlead.serve.scheduler.use import pod_facts
from fairlead.share import DeviceShare
from fairlead.sizing.footprint import Footprint, FootprintBook
from fairlead.sizing.needs import evidence, need_of
from fairlead.sizing.shares import RoomLeft, extend_shares
from fairlead.units import Bytes
from fairlead.usage.history import UseHistory
from fairlead.usage.limits import PERIOD, UseLimits
from fairlead.usage.status import UseStatus
from fairlead.use import DeviceKey, PodDeviceKey

STEP: Final = 0.01
"""A need that changes a pod's size by less than this part of the accelerator's memory changes nothing."""
MOST_CHANGES: Final = 300
"""The most bound pods that are counted otherwise after one refresh; those that grew come first."""
ROUNDS: Final = 4
"""The need of a pod with steady use is computed once in as many refreshes, unless it holds more."""
NO_CLAIMS: Final = "this cluster has no claims of its own: a kubelet counts its request"
NAMED_CLAIM: Final = "the claim that it names states its size: counted by its request"
UNDONE: Final = "a pod of its workload crashed by lack of memory: counted by its request"


@dataclass(frozen=True, slots=True)
class NeedRules:
    """How needs are derived."""

    every_pod: bool = False
    """Whether the policy places every pod by its need; else only pods that ask for it."""
    shares: bool = True
    """Whether a share may differ from the request: only claims of the scheduler's own can."""
    bound: float = DEFAULT_BOUND
    period: float = PERIOD


@dataclass(slots=True)
class _Run:
    """A bound pod while it is measured."""

    placement: Placement
    pod: LivePod
    met: float
    restarts: int = 0
    ids: tuple[str, ...] = ()
    """Its runs in the book of footprints: one for each key and accelerator."""
    need: Need | None = None
    full: bool = False
    """At the last refresh it held all that it could get of an accelerator."""


@dataclass(slots=True)
class NeedCounts:
    """What happened since the start."""

    surprises: int = 0
    """Samples above the largest size of the pod's need."""
    crashes: list[LivePod] = field(default_factory=list)
    """Pods that crashed by lack of memory since they were taken."""


class NeedTracker:
    """Needs of pending and bound pods."""

    def __init__(self, cache: SchedulerCache, rules: NeedRules) -> None:
        self._cache = cache
        self.rules = rules
        self.history = UseHistory(limits=UseLimits.for_period(rules.period))
        self.book = FootprintBook()
        self.undone: set[str] = set()
        """Keys of workloads that go by their requests again, as a right-sized pod crashed."""
        self.status = UseStatus()
        self.counts = NeedCounts()
        self.now = 0.0
        """Seconds since the epoch, as of the last refresh."""
        self._requests: dict[str, Request] = {}
        """Pending pods that request accelerators, as they are written."""
        self._pending: dict[str, Need] = {}
        self._keys: dict[str, tuple[LivePod, tuple[str, ...]]] = {}
        """The keys of workloads by pod: a version of a pod has the same ones each time."""
        self._runs: dict[str, _Run] = {}
        self._by_device: dict[DeviceKey, list[_Run]] = {}
        self._round = 0
        cache.needs.for_pending, cache.needs.extend = self._pending_need, self.extend

    def need(self, uid: str) -> Need | None:
        """Return the need of a pod, also one that is its request; None: nothing was derived."""
        run = self._runs.get(uid)
        return run.need if run is not None else self._pending.get(uid)

    def needs_by_source(self) -> dict[str, int]:
        """Return how many pods have a need of each source."""
        needs = [run.need for run in self._runs.values() if run.need is not None]
        count = Counter(need.source.value for need in (*needs, *self._pending.values()))
        return {source.value: count[source.value] for source in NeedSource}

    def footprint(self, pod: LivePod) -> Footprint | None:
        """Return what is known of a pod's workload, by the best of the keys with the most evidence."""
        found = (self.book.get(key) for key in self._workload(pod))
        return max((each for each in found if each is not None), key=evidence, default=None)

    def _workload(self, pod: LivePod) -> tuple[str, ...]:
        uid = pod.metadata.uid
        known = self._keys.get(uid)
        if known is None or known[0] is not pod:
            known = self._keys[uid] = pod, workload_keys(pod)
        return known[1]

    def refresh(self, now: float, *, learn: bool) -> None:
        """Derive all needs again; `learn`: also count the samples in the book of footprints."""
        self.now, self._round = now, self._round + 1
        self.status = self.history.status(now)
        self._follow_runs(now, learn=learn)
        self._index_devices()
        changed = self._changed_runs()
        for run in changed:
            assert run.need is not None, "a changed run has a need"
            self._cache.needs.bound[run.placement.request.id] = run.need
        self._cache.recount(self._changed_pending(), {run.placement.node for run in changed})
        self._count_foreign()

    def runs_on(self, key: DeviceKey) -> Iterator[tuple[LivePod, Placement]]:
        """Yield the bound pods with a share of an accelerator."""
        for run in self._by_device.get(key, ()):
            yield run.pod, run.placement

    def extend(self, pod: LivePod, placement: Placement) -> Placement:
        """Return a new placement with the shares that an elastic pod is offered, and count those.

        A limit that the pod itself states is not extended.
        """
        if placement.request.need is None or pod_facts.limit_of(pod) is not None:
            return placement
        own = {share.device: share.memory for share in placement.shares}
        left = {
            each.id: RoomLeft(each.memory + own.get(each.id, 0), each.holders - (each.id in own))
            for each in self._cache.cluster.free(placement.node).devices
        }
        extended = extend_shares(placement, self.footprint(pod), left)
        if extended is not placement:
            self._cache.cluster.rebook(placement.request.id, extended.shares, extended.request)
        return extended

    # Pending pods

    def _pending_need(self, pod: LivePod, request: Request) -> Need | None:
        if not request.demand.count:
            return None
        self._requests[request.id] = request
        return self._store(request.id, self._derive_pending(pod, request))

    def _store(self, uid: str, need: Need | None) -> Need | None:
        if need is None:
            self._pending.pop(uid, None)
        else:
            self._pending[uid] = need
        return need

    def _derive_pending(self, pod: LivePod, request: Request) -> Need | None:
        rightsized = pod_facts.is_rightsized(pod)
        requested = pod_facts.requested_memory(request)
        if request.whole or not (self.rules.every_pod or rightsized):
            return None
        footprint = self.footprint(pod)
        if requested is not None and (footprint is None or not evidence(footprint)):
            footprint = pod_facts.estimated_footprint(request) or footprint
        if requested is None and (footprint is None or not request.sized_by_estimate):
            return None
        if why := self._why_by_request(pod, rightsized=rightsized):
            return None if requested is None else Need.fixed(requested, firm=False, note=why)
        limit, bound = pod_facts.limit_of(pod), self.rules.bound
        return need_of(requested, footprint, Series(), None, self.now, Staleness.FRESH, bound, limit)

    def _why_by_request(self, pod: LivePod, *, rightsized: bool) -> str:
        """Return why a pending pod counts by its request, whatever is known of its workload."""
        if not self.rules.shares:
            return NO_CLAIMS
        if pod.spec.resource_claims:
            return NAMED_CLAIM
        if self.status.staleness is not Staleness.FRESH:
            return f"measured use is {self.status.staleness.value}: {self.status.reason}"
        return UNDONE if rightsized and not self.undone.isdisjoint(self._workload(pod)) else ""

    def _changed_pending(self) -> list[str]:
        """Return the pending pods whose request must carry another need."""
        for uid in [uid for uid in self._requests if not self._cache.waits(uid)]:
            del self._requests[uid]
            self._pending.pop(uid, None)
        for uid in [uid for uid in self._keys if uid not in self._requests and uid not in self._runs]:
            del self._keys[uid]
        changed = []
        for uid, request in self._requests.items():
            pod, before = self._cache.pod(uid), carried(self._pending.get(uid))
            if pod is not None and carried(self._store(uid, self._derive_pending(pod, request))) != before:
                changed.append(uid)
        return changed

    # Bound pods

    def _follow_runs(self, now: float, *, learn: bool) -> None:
        placed = {each.request.id: each for each in self._cache.cluster.placements() if each.shares}
        for uid in [uid for uid in self._runs if uid not in placed]:
            self._end_run(uid, self._cache.pod(uid), now)
        for uid in [uid for uid in self._cache.needs.bound if uid not in placed]:
            del self._cache.needs.bound[uid]  # its binding failed
        for uid, placement in placed.items():
            pod = self._cache.pod(uid)
            if pod is None or not pod.spec.node_name:
                continue
            run = self._runs.get(uid)
            if run is None:
                self._pending.pop(uid, None)
                run = self._runs[uid] = _Run(placement, pod, now, pod_facts.restarts(pod))
            run.placement, run.pod = placement, pod
            self._follow(run, now, learn=learn)

    def _index_devices(self) -> None:
        self._by_device = {}
        for run in self._runs.values():
            for share in run.placement.shares:
                self._by_device.setdefault(DeviceKey(run.placement.node, share.device), []).append(run)

    def _follow(self, run: _Run, now: float, *, learn: bool) -> None:
        restarts = pod_facts.restarts(run.pod)
        if restarts > run.restarts:
            self._end(run, run.pod, now)
            run.restarts = restarts
        uses = {share: self._use(run, share) for share in run.placement.shares if not share.whole}
        if not uses:
            return
        if learn:
            self._learn(run, uses, now)
        observed = max(uses.values(), key=lambda series: series.latest or 0.0)
        run.full = any(self._is_full(run, share, series) for share, series in uses.items())
        if self._is_due(run, observed):
            self._check_surprise(run, observed)
            run.need = self._derive_bound(run, observed, now)

    def _derive_bound(self, run: _Run, observed: Series, now: float) -> Need | None:
        request, pod = run.placement.request, run.pod
        rightsized = pod_facts.is_rightsized(pod)
        if not (self.rules.every_pod or rightsized):
            return None
        fresh = self.history.limits.fresh
        started: float | None = self._started(run)
        staleness = observed.staleness(now, fresh)
        if self.status.staleness is not Staleness.FRESH:
            staleness = self.status.staleness
        elif staleness is Staleness.MISSING and now - (started or 0.0) < fresh:
            started, staleness = None, Staleness.FRESH  # it was bound a moment ago
        requested = pod_facts.requested_memory(request) or max(each.memory for each in run.placement.shares)
        limit, footprint = pod_facts.limit_of(pod), self.footprint(pod)
        return need_of(requested, footprint, observed, started, now, staleness, self.rules.bound, limit)

    def _is_due(self, run: _Run, observed: Series) -> bool:
        """Say whether a pod's need must be computed now."""
        need = run.need
        steady = need is not None and need.source is NeedSource.OBSERVED
        steady = steady and self.status.staleness is Staleness.FRESH and bool(observed)
        turn = crc32(run.placement.request.id.encode()) % ROUNDS == self._round % ROUNDS
        return not steady or turn or (need is not None and (observed.latest or 0.0) > need.peak)

    def _check_surprise(self, run: _Run, observed: Series) -> None:
        if run.need is not None and (observed.latest or 0.0) > run.need.peak:
            self.counts.surprises += 1

    def _use(self, run: _Run, share: DeviceShare) -> Series:
        key = PodDeviceKey(run.placement.request.id, run.placement.node, share.device)
        return self.history.pod(key).memory

    def _started(self, run: _Run) -> float:
        bound = pod_facts.scheduled_at(run.pod)
        return run.met if bound is None else bound

    def _learn(self, run: _Run, uses: dict[DeviceShare, Series], now: float) -> None:
        started, limit, uid = self._started(run), pod_facts.limit_of(run.pod), run.placement.request.id
        keys = self._workload(run.pod)
        run.ids = tuple(f"{key} {uid} {share.device}" for share in uses for key in keys)
        for share, series in uses.items():
            reserved = run.need.peak if run.need is not None else share.memory
            for key in keys if series else ():
                identity = f"{key} {uid} {share.device}"
                self.book.observe(key, identity, series, started, limit, now, reserved=reserved or None)

    def _is_full(self, run: _Run, share: DeviceShare, series: Series) -> bool:
        """Say whether a pod is near its limit, or its accelerator near its memory."""
        limit, held = pod_facts.limit_of(run.pod), series.latest or 0.0
        if limit is not None and held >= 0.9 * limit:
            return True
        memory = self._memory(DeviceKey(run.placement.node, share.device))
        used = self.history.device(DeviceKey(run.placement.node, share.device)).memory
        return bool(memory) and max(used.values[-4:], default=0.0) >= 0.9 * memory

    def _end_run(self, uid: str, pod: LivePod | None, now: float) -> None:
        run = self._runs.pop(uid)
        self._cache.needs.bound.pop(uid, None)
        self._end(run, pod, now)

    def _end(self, run: _Run, pod: LivePod | None, now: float) -> None:
        """Learn from the end of a pod, or of its containers."""
        failed = pod is not None and (pod.status.phase == "Failed" or bool(pod.spec.node_name))
        failed = failed and pod is not None and not pod.metadata.deletion_timestamp
        statuses = pod.status.container_statuses if pod is not None else ()
        crashed = failed and pod_facts.lacked_memory(statuses, was_full=run.full)
        stopped = pod is None or bool(pod.metadata.deletion_timestamp)
        for identity in run.ids:
            self.book.ended(identity, crashed, now, stopped=stopped)
        if crashed and pod is not None:
            self.counts.crashes.append(pod)

    def _changed_runs(self) -> list[_Run]:
        """Return the pods to count otherwise: new ones, then those that grew, and not too many."""
        new: list[_Run] = []
        grown: list[_Run] = []
        shrunk: list[_Run] = []
        for uid, run in self._runs.items():
            before = self._cache.needs.bound.get(uid)
            if run.need is None or run.need == before:
                continue
            if before is None:
                new.append(run)
                continue
            change = self._change(run, before, run.need)
            if change > 0:
                grown.append(run)
            elif change < 0:
                shrunk.append(run)
        return new + (grown + shrunk)[:MOST_CHANGES]

    def _change(self, run: _Run, before: Need, need: Need) -> float:
        """Return by which part of an accelerator a pod's size changes; 0: too little to count it."""
        if (before.firm, before.source) != (need.firm, need.source):
            return 1.0
        largest = 0.0
        for share in run.placement.shares:
            memory = self._memory(DeviceKey(run.placement.node, share.device))
            if memory and not share.whole:
                part = (effective_size(need, memory) - effective_size(before, memory)) / memory
                largest = max(largest, part, key=abs)
        return largest if abs(largest) >= STEP else 0.0

    # Accelerators

    def _memory(self, key: DeviceKey) -> int:
        node = self._cache.cluster.node(key.node)
        return next((each.memory for each in node.devices if each.id == key.device), 0) if node else 0

    def _count_foreign(self) -> None:
        """Count what processes outside pods hold, where it is more than a part that sizes do not show."""
        held: dict[str, dict[str, Bytes]] = {name: {} for name in self._cache.needs.foreign_nodes()}
        for key in self.history.devices() if self.rules.every_pod else ():
            foreign, memory = self.history.foreign(key, self.now), self._memory(key)
            if foreign and foreign >= STEP * memory:
                step = max(1, int(STEP * memory))
                held.setdefault(key.node, {})[key.device] = Bytes(-(-foreign // step) * step)
        changed = [node for node, by_device in held.items() if self._cache.needs.set_foreign(node, by_device)]
        self._cache.recount((), changed)
