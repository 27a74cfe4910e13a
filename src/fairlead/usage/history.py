"""UseHistory: the measured use of the last minutes, bounded in time, points, bytes and number of series.

Pure: the times come with the reports and from the caller. A measurement that cannot be right counts as
missing, under the `UseFault` that says why. A series without new points becomes stale, not zero.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Generic, TypeVar

from fairlead.series import Staleness
from fairlead.units import Bytes
from fairlead.usage.limits import WINDOW, UseLimits, check_busy, check_memory
from fairlead.usage.status import UseStatus, describe
from fairlead.usage.track import NO_USE, POINT_SIZE, DeviceUse, Track
from fairlead.use import DeviceKey, PodDeviceKey, UseFault, UseReport, UseSample

K = TypeVar("K", DeviceKey, PodDeviceKey)


class UseHistory:
    """Series of devices and of pods on them, extended by one report at a time."""

    def __init__(self, window: float = WINDOW, limits: UseLimits | None = None) -> None:
        self.window = window
        self.limits = limits or UseLimits()
        self._devices = _Tracks[DeviceKey]()
        self._pods = _Tracks[PodDeviceKey]()
        self._foreign: Mapping[DeviceKey, Bytes] = {}
        self._foreign_at = float("-inf")
        self._totals = Counter[UseFault]()
        self._faults = Counter[UseFault]()
        self._last: UseReport | None = None

    def on_report(self, report: UseReport) -> None:
        """Add the samples of a report, and drop what is older than the window."""
        self._faults = Counter(report.faults)
        if self._last is not None and report.at < self._last.at - self.limits.future:
            self._forget()
        for key, sample in report.devices.items():
            self._add(self._devices, key, sample, report)
        for pod, sample in report.pods.items():
            self._add(self._pods, pod, sample, report)
        self._trim(report.at)
        if report.devices:
            self._foreign, self._foreign_at = report.foreign, report.at
        self._totals.update(self._faults)
        self._last = report

    def device(self, key: DeviceKey) -> DeviceUse:
        """Return the series of a device; empty ones if it was not measured."""
        return self._devices.use(key)

    def pod(self, key: PodDeviceKey) -> DeviceUse:
        """Return the series of a pod on one device; empty ones if it was not measured."""
        return self._pods.use(key)

    def devices(self) -> Iterator[DeviceKey]:
        """Yield the devices that were measured within the window."""
        return iter(self._devices.by_key)

    def pods(self) -> Iterator[PodDeviceKey]:
        """Yield the pods that were measured within the window, each with its device."""
        return iter(self._pods.by_key)

    def foreign(self, key: DeviceKey, now: float) -> Bytes | None:
        """Return the memory that processes outside pods hold; None: it is not known, or stale."""
        return self._foreign.get(key) if now - self._foreign_at <= self.limits.fresh else None

    def status(self, now: float) -> UseStatus:
        """Return how current the measurements are, and for people why."""
        newest = max(self._devices.newest, self._pods.newest)
        age = max(0.0, now - newest) if isfinite(newest) else None
        state = Staleness.MISSING
        if age is not None:
            state = Staleness.FRESH if age <= self.limits.fresh else Staleness.STALE
        start = now - self.limits.fresh
        devices, pods = self._devices.fresh(start), self._pods.fresh(start)
        return UseStatus(
            source=self._last.source if self._last else "",
            staleness=state,
            reason=describe(state, age, self._last, self._faults, self.limits) or self._missing(devices),
            faults=dict(self._totals),
            devices_fresh=devices,
            devices_stale=len(self._devices.by_key) - devices,
            pods_fresh=pods,
            pods_stale=len(self._pods.by_key) - pods,
            age=age,
        )

    def _missing(self, fresh: int) -> str:
        """Return in words how many devices have no fresh sample; empty: none."""
        known = len(self._devices.by_key)
        if fresh == known:
            return ""
        return f"{known - fresh} of {known} devices have no new sample for {self.limits.fresh:.0f} s"

    def _add(self, tracks: "_Tracks[K]", key: K, sample: UseSample, report: UseReport) -> None:
        if sample.at - report.at > self.limits.future:
            self._faults[UseFault.CLOCK_SKEW] += 1
            return
        checked = self._checked(sample)
        if checked is None:
            return
        if report.at - sample.at > self.limits.fresh:
            self._faults[UseFault.LAGGING] += 1
        track = tracks.by_key.get(key)
        if track is None:
            if len(self._devices.by_key) + len(self._pods.by_key) >= self.limits.keys:
                self._faults[UseFault.LIMIT] += 1
                return
            track = tracks.by_key[key] = Track()
        if sample.at > track.last:  # a source repeats its last sample until it has a newer one
            track.append(checked, report.source)
            tracks.newest = max(tracks.newest, sample.at)
        elif sample.at < track.last - self.limits.future:
            self._faults[UseFault.RESET] += 1

    def _checked(self, sample: UseSample) -> UseSample | None:
        """Return a sample without the values that cannot be; None: nothing is left."""
        memory, busy = sample.memory, sample.busy
        if memory is not None and (fault := check_memory(memory)):
            self._faults[fault] += 1
            memory = None
        if busy is not None and (fault := check_busy(busy)):
            self._faults[fault] += 1
            busy = None
        if memory is None and busy is None:
            return None
        if memory is sample.memory and busy is sample.busy:
            return sample
        return UseSample(sample.at, memory, busy)

    def _trim(self, now: float) -> None:
        """Keep what is inside the window and the limits; of too many points, the newest."""
        keys = max(1, len(self._devices.by_key) + len(self._pods.by_key))
        most = max(1, min(self.limits.points, self.limits.size // (POINT_SIZE * keys)))
        over = self._devices.trim(now - self.window, most) + self._pods.trim(now - self.window, most)
        if over:
            self._faults[UseFault.LIMIT] += over

    def _forget(self) -> None:
        """Drop every point: the clock of the reader went back, and old points would look fresh."""
        self._faults[UseFault.RESET] += 1
        self._devices, self._pods = _Tracks(), _Tracks()
        self._foreign_at = float("-inf")


class _Tracks(Generic[K]):
    """The points of each key, and the time of the newest point of all."""

    def __init__(self) -> None:
        self.by_key: dict[K, Track] = {}
        self.newest = float("-inf")

    def use(self, key: K) -> DeviceUse:
        track = self.by_key.get(key)
        return track.view() if track is not None else NO_USE

    def fresh(self, start: float) -> int:
        return sum(track.last >= start for track in self.by_key.values())

    def trim(self, start: float, most: int) -> int:
        """Drop old points and keys without a point; return how many points a limit cost."""
        total = 0
        gone = []
        for key, track in self.by_key.items():
            total += track.trim(start, most)[1]
            if not len(track):
                gone.append(key)
        for key in gone:
            del self.by_key[key]
        return total
