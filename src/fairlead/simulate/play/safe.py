"""`fairlead-safe` in a simulation: learned sizes, limits and the guard, on simulated measurements."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from fairlead.need import DEFAULT_BOUND, Need, NeedSource, headroom
from fairlead.placement import Decision, Placement, share_of
from fairlead.request import Request
from fairlead.schedule import decide, preempt
from fairlead.series import Series, Staleness
from fairlead.share import DeviceShare
from fairlead.simulate.play.runs import RunningJob, RunningJobs
from fairlead.simulate.play.world import World
from fairlead.simulate.trace.job import Job
from fairlead.sizing.footprint import Footprint, FootprintBook
from fairlead.sizing.guard import REACTION, Evict, GuardedDevice, GuardedPod, GuardState, Shrink, protect
from fairlead.sizing.needs import PERIOD, need_of
from fairlead.sizing.shares import RoomLeft, extend_shares
from fairlead.units import Bytes
from fairlead.use import DeviceKey, PodDeviceKey, UseReport, UseSample

SAFE: Final = "fairlead-safe"
MOST_SAMPLES: Final = 1024
"""Samples that are kept of a pod."""


@dataclass
class _Track:
    """What is known of a placed pod: its run and the samples of it."""

    request: Request
    device: DeviceKey
    limit: Bytes | None
    started: float | None = None
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    @property
    def series(self) -> Series:
        return Series(self.times, self.values, "simulation")

    @property
    def growth(self) -> float:
        """Bytes per second between the last two samples."""
        if len(self.times) < 2:
            return 0.0
        return (self.values[-1] - self.values[-2]) / (self.times[-1] - self.times[-2])


@dataclass
class SafePolicy:
    """Places by needs, hands limits to elastic pods, and guards the memory of every accelerator."""

    images: Mapping[str, str]
    """The image of each request, by its id."""
    book: FootprintBook = field(default_factory=FootprintBook)
    bound: float = DEFAULT_BOUND
    period: float = PERIOD
    name: str = SAFE
    _tracks: dict[str, _Track] = field(default_factory=dict)
    _guards: dict[DeviceKey, GuardState] = field(default_factory=dict)

    @property
    def every(self) -> float:
        """Seconds after which waiting jobs are tried again: needs change with each sample."""
        return self.period

    def attach(self, world: World, runs: RunningJobs) -> None:
        """Take the world and its running jobs, before the first event."""
        self._world, self._runs = world, runs

    def choose(self, world: World, request: Request, evict: bool) -> Decision:
        """Decide where a request goes by its need; an elastic pod gets what is free, as a limit."""
        footprint = self._footprint(request)
        sized = replace(request, need=self._need(request, footprint))
        if evict:
            decision = preempt(world.cluster, sized, self.name, spared=world.residents)
        else:
            decision = decide(world.cluster, sized, self.name)
        if decision.placement is None or world is not self._world:
            return decision
        placement = decision.placement
        if footprint is not None and footprint.least is not None and not decision.victims:
            placement = self._extended(world, placement, footprint)
        for share in placement.shares:
            limit = share.memory if placement.request.need and placement.request.need.firm else None
            self._tracks[request.id] = _Track(request, DeviceKey(placement.node, share.device), limit)
        return replace(decision, placement=placement)

    def limit(self, request: Request, share: DeviceShare) -> int | None:
        """Return the limit that the framework of a pod got."""
        return self._tracks[request.id].limit if request.id in self._tracks else None

    def ended(self, job: str, crashed: bool, now: float) -> None:
        """Learn from the end of a run; a pod that crashed keeps its place and starts again."""
        for placement in self._runs.all[job].placements:
            uid = placement.request.id
            self.book.ended(uid, crashed, now)
            track = self._tracks.pop(uid, None)
            if crashed and track is not None:
                limit = self._raised(job, track) if track.limit is not None else None
                self._tracks[uid] = _Track(track.request, track.device, limit)

    def evicted(self, job: str, now: float) -> None:
        """Learn from a run that was cut short; under a limit it shows no least size."""
        for placement in self._runs.all[job].placements:
            uid = placement.request.id
            track = self._tracks.pop(uid, None)
            if track is None or track.limit is not None:
                self.book.forget([uid])
            else:
                self.book.ended(uid, False, now)

    def sample(self, now: float) -> Iterable[str]:
        """Count what pods hold now, size them again, and let the guard act; return the jobs to evict."""
        report = self._measure(now)
        owners: dict[str, RunningJob] = {}
        for run in self._runs.all.values():
            for placement in run.placements:
                owners[placement.request.id] = run
                self._learn(run, placement, report)
        return [name for key in report.devices for name in self._guard(key, owners, now)]

    # Inside

    def _raised(self, job: str, track: _Track) -> Bytes | None:
        """Return the limit of a pod that crashed under its limit: what the crash taught, if that is free."""
        cluster, limit = self._world.cluster, track.limit
        placement, footprint = cluster.placement(track.request.id), self._footprint(track.request)
        if limit is None or placement is None or footprint is None or footprint.least is None:
            return limit
        free = {left.id: left.memory for left in cluster.free(placement.node).devices}
        wanted = Bytes(round(footprint.least * (1 + footprint.margin)))
        if not limit < wanted <= limit + free[track.device.device]:
            return limit
        shares = tuple(
            replace(share, memory=wanted) if share.device == track.device.device else share
            for share in placement.shares
        )
        request = replace(placement.request, need=Need.fixed(wanted, source=NeedSource.HISTORY))
        cluster.rebook(track.request.id, shares, request)
        self._runs.set_limit(job, wanted)
        return wanted

    def _footprint(self, request: Request) -> Footprint | None:
        return self.book.get(self.images.get(request.id, ""))

    def _need(self, request: Request, footprint: Footprint | None) -> Need | None:
        if request.demand.memory is None:
            return None
        memory = request.demand.memory
        need = need_of(memory, footprint, Series(), None, 0.0, Staleness.MISSING, self.bound)
        return self._capped(need, memory)

    def _capped(self, need: Need, requested: Bytes) -> Need:
        """Return a need that fits an empty accelerator if the request does: a margin starves no pod."""
        most = max((each.state.memory for each in self._world.accelerators.values()), default=0)
        room = Bytes(most if need.firm else most - headroom(most))
        if need.peak <= room or requested > room:
            return need
        return replace(need, sizes=tuple(min(size, room) for size in need.sizes))

    def _extended(self, world: World, placement: Placement, footprint: Footprint) -> Placement:
        """Return a placement with the share that an elastic pod is offered instead of its least size."""
        devices = world.cluster.free(placement.node).devices
        left = {each.id: RoomLeft(each.memory, each.holders) for each in devices}
        return extend_shares(placement, footprint, left)

    def _measure(self, now: float) -> UseReport:
        """Return what agents would report now."""
        devices, pods = {}, {}
        for (node, device), accelerator in self._world.accelerators.items():
            devices[DeviceKey(node, device)] = UseSample(now, Bytes(accelerator.memory), accelerator.busy)
            for job, memory in accelerator.held.items():
                for placement in self._runs.all[job].placements:
                    key = PodDeviceKey(placement.request.id, node, device)
                    pods[key] = UseSample(now, Bytes(memory))
        return UseReport(now, "simulation", devices, pods)

    def _learn(self, run: RunningJob, placement: Placement, report: UseReport) -> None:
        uid, now = placement.request.id, report.at
        track = self._tracks.get(uid)
        sample = report.pods.get(PodDeviceKey(uid, *track.device)) if track is not None else None
        if track is None or sample is None or not run.attached or not sample.memory:
            return
        if track.started is None:
            track.started = now - self.period
        track.times.append(now)
        track.values.append(float(sample.memory))
        del track.times[:-MOST_SAMPLES], track.values[:-MOST_SAMPLES]
        image = self.images.get(uid, "")
        reserved = max(share.memory for share in placement.shares)
        self.book.observe(image, uid, track.series, track.started, track.limit, now, reserved=reserved)
        self._resize(track, placement, now)

    def _resize(self, track: _Track, placement: Placement, now: float) -> None:
        if track.request.demand.memory is None:
            return
        requested, footprint = track.request.demand.memory, self._footprint(track.request)
        started, fresh = track.started, Staleness.FRESH
        need = need_of(requested, footprint, track.series, started, now, fresh, self.bound, track.limit)
        request = replace(placement.request, need=need)
        states = {device.id: device for device in self._world.nodes[placement.node].devices}
        shares = tuple(
            share if share.whole else share_of(request, states[share.device]) for share in placement.shares
        )
        current = self._world.cluster.placement(placement.request.id)
        if current is not None and current.shares != shares:
            self._world.cluster.rebook(placement.request.id, shares, request)

    def _guard(self, key: DeviceKey, owners: Mapping[str, RunningJob], now: float) -> Iterable[str]:
        accelerator = self._world.accelerators[key]
        pods = tuple(
            self._guarded(track, owners[uid])
            for uid, track in self._tracks.items()
            if track.device == key and uid in owners and track.values
        )
        if not pods or not accelerator.state.memory:
            return
        device = GuardedDevice(accelerator.state.memory, pods)
        verdict = protect(device, self._guards.get(key, GuardState()), now)
        self._guards[key] = verdict.state
        for action in verdict.actions:
            if isinstance(action, Evict):
                yield owners[action.pod_uid].job.name
            elif isinstance(action, Shrink):
                self._runs.set_limit(owners[action.pod_uid].job.name, action.to)
                self._tracks[action.pod_uid].limit = action.to

    def _guarded(self, track: _Track, run: RunningJob) -> GuardedPod:
        footprint = self._footprint(track.request)
        growth = track.growth
        if footprint is not None and footprint.runs:  # a step is no trend: it ends at the learned peak
            peak = footprint.full * (1 + footprint.margin)
            growth = min(growth, max(0.0, peak - track.values[-1]) / REACTION)
        return GuardedPod(
            track.request.id,
            track.request.namespace,
            track.request.name,
            track.request.priority,
            Bytes(round(track.values[-1])),
            growth,
            track.limit,
            footprint.least if footprint is not None else None,
            elastic=run.job.gives_back,
            evictable=run.job.duration < inf,
            progress=run.done,
        )


def images_of(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the image of every request, by its id: that of its job, or the job's name."""
    return {request.id: job.image or job.name for job in jobs for request in job.requests}
