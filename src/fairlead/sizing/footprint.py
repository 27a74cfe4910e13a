"""Footprints: what is known of the memory of an image or a model, learned from the runs of its pods.

A workload has two sizes: the least memory that it runs in, and what it takes when there is room. A run
under a limit teaches the first, a run without one the second. Until a run stops growing it is in its ramp;
after that its use counts in a histogram.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead.series import Series
from fairlead.sizing.grid import LEVELS, bounded, level
from fairlead.units import Bytes

SURPRISE_STEP: Final = 0.05
"""What a sample above the reserved size adds to the margin."""
CRASH_STEP: Final = 0.25
"""What a crash by lack of memory adds to the margin, and to the limit under which it happened."""
MOST_MARGIN: Final = 1.0
MARGIN_HALF_LIFE: Final = 5760
"""Clean samples after which half of the added margin is gone: a day at one sample every 15 s."""
HALF_LIFE: Final = 7 * 86400.0
"""Seconds after which use counts half: workloads change with their data and their callers."""
MOST_RAMP: Final = 600.0
"""Seconds after which a run counts as steady, whether it still grows or not."""
GROWTH: Final = 1.05
"""A new peak lengthens the ramp where it is this many times the last one."""
LONGEST_GAP: Final = 120.0
"""A sample stands for the seconds since the one before, and for no more than these."""
RAMP_DECAY: Final = 0.9
"""What a run with a shorter ramp leaves of a longer one."""
FEWEST_SAMPLES: Final = 4
"""Samples below which the end of a run teaches nothing: it was stopped before it could grow."""
MOST_FOOTPRINTS: Final = 1000
MOST_WAITING: Final = 256
"""Samples of a run's first `MOST_RAMP` seconds that wait until the end of its ramp is known."""
LONGEST_KEY: Final = 512
NO_BYTES: Final = Bytes(0)


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of an image or a model on one accelerator."""

    key: str
    """An image reference or the digest of a model."""
    least: Bytes | None
    """The least memory that it runs in; None: no run had a limit, and no size was stated."""
    full: Bytes
    """What it takes when there is room: the highest peak seen."""
    ramp: float
    """Seconds until a run stops growing; an upper estimate."""
    sizes: tuple[Bytes, ...] = ()
    """Steady use without a limit: levels of the grid, ascending."""
    weights: tuple[float, ...] = ()
    """The seconds at each size; older ones count less."""
    runs: int = 0
    """The runs whose ramp was seen, and those that ended."""
    samples: int = 0
    surprises: int = 0
    """Samples above what was reserved, and crashes by lack of memory."""
    margin: float = 0.0
    """The relative widening of every size: grows with surprises, and falls slowly with clean samples."""
    updated: float = 0.0
    """Seconds since the epoch."""
    refused: Bytes = NO_BYTES
    """The largest limit under which a run crashed."""
    stated: Bytes = NO_BYTES
    """What it takes when there is room, by the user or a model profile; counts until a run is known."""
    lowest: Bytes = NO_BYTES
    """The lowest peak of a run without a limit; zero: there was none."""


class _Learner:
    """A footprint while it is learned."""

    __slots__ = (
        "bins", "cached", "decayed", "full", "key", "known", "least", "lowest", "margin",
        "ramp", "refused", "runs", "samples", "stated", "surprises", "updated",
    )  # fmt: skip

    def __init__(self, footprint: Footprint) -> None:
        self.key = footprint.key
        self.least = footprint.least
        self.full = footprint.full
        self.ramp = footprint.ramp
        self.bins: dict[int, float] = {}
        for size, weight in zip(footprint.sizes, footprint.weights, strict=True):
            index = level(size)
            self.bins[index] = self.bins.get(index, 0.0) + weight
        self.runs = footprint.runs
        self.samples = footprint.samples
        self.surprises = footprint.surprises
        self.margin = footprint.margin
        self.updated = footprint.updated
        self.refused = footprint.refused
        self.stated = footprint.stated
        self.lowest = footprint.lowest
        self.known = footprint.updated
        """Samples up to here were counted by the program that wrote the footprint."""
        self.decayed = footprint.updated
        self.cached: Footprint | None = footprint

    def footprint(self) -> Footprint:
        if self.cached is None:
            bins = sorted(bounded(self.bins).items())
            self.cached = Footprint(
                self.key, self.least, self.full, round(self.ramp, 1),
                tuple(LEVELS[index] for index, _ in bins), tuple(round(weight, 1) for _, weight in bins),
                self.runs, self.samples, self.surprises, round(self.margin, 4),
                self.updated, self.refused, self.stated, self.lowest,
            )  # fmt: skip
        return self.cached

    def touch(self, now: float) -> None:
        self.cached = None
        self.updated = max(self.updated, now)

    def surprise(self, step: float) -> None:
        self.surprises += 1
        self.margin = min(MOST_MARGIN, self.margin + step)

    def clean(self, samples: int) -> None:
        self.samples += samples
        self.margin *= 0.5 ** (samples / MARGIN_HALF_LIFE)

    def add_steady(self, samples: Iterable[tuple[float, float, float]], now: float) -> None:
        if now - self.decayed > HALF_LIFE / 100:
            factor = 0.5 ** ((now - self.decayed) / HALF_LIFE) if self.decayed else 1.0
            self.bins = {index: weight * factor for index, weight in self.bins.items()}
            self.decayed = now
        for _, value, seconds in samples:
            index = level(value)
            self.bins[index] = self.bins.get(index, 0.0) + seconds

    def add_ramp(self, seconds: float) -> None:
        self.ramp = max(seconds, RAMP_DECAY * self.ramp + (1 - RAMP_DECAY) * seconds)


class _Run:
    """One pod while it runs."""

    __slots__ = (
        "counted", "grew", "key", "late", "limit", "met", "peak", "record",
        "reserved", "samples", "settled", "started", "waiting",
    )  # fmt: skip

    def __init__(self, key: str, started: float, limit: Bytes | None, counted: float) -> None:
        self.key = key
        self.started = started
        self.limit = limit
        self.counted = counted
        """The time of the last sample that was counted."""
        self.peak = 0.0
        self.record = 0.0
        """The last peak that lengthened the ramp."""
        self.grew = started
        self.reserved: float | None = limit
        self.settled = False
        """The end of the ramp is known, and the run counted."""
        self.met = started
        """The time of its first sample."""
        self.late = False
        """It was met after its ramp."""
        self.samples = 0
        self.waiting: list[tuple[float, float, float]] = []


class FootprintBook:
    """The footprints of all images and models, and the runs that they are learned from."""

    def __init__(self, footprints: Iterable[Footprint] = (), most: int = MOST_FOOTPRINTS) -> None:
        self._most = most
        self._learners = {footprint.key: _Learner(footprint) for footprint in footprints}
        self._runs: dict[str, _Run] = {}
        self._bound()

    def __len__(self) -> int:
        return len(self._learners)

    def get(self, key: str) -> Footprint | None:
        """Return what is known of an image or a model; None: nothing."""
        learner = self._learners.get(key)
        return learner.footprint() if learner is not None else None

    def footprints(self) -> tuple[Footprint, ...]:
        """Return all footprints, the last updated first."""
        known = [learner.footprint() for learner in self._learners.values()]
        return tuple(sorted(known, key=lambda each: (-each.updated, each.key)))

    def state(
        self,
        key: str,
        *,
        least: Bytes | None = None,
        full: Bytes | None = None,
        ramp: float | None = None,
        now: float,
    ) -> None:
        """Take sizes that the user states or a model profile gives; a measured peak stays."""
        learner = self._learner(key, now)
        if learner is None:
            return
        if least is not None:
            learner.least, learner.refused = least, NO_BYTES
        learner.stated = max(full or NO_BYTES, least or NO_BYTES)
        learner.full = max(learner.full, learner.stated)
        learner.ramp = max(learner.ramp, ramp or 0.0)
        learner.touch(now)

    def observe(
        self,
        key: str,
        pod_uid: str,
        series: Series,
        started: float,
        limit: Bytes | None,
        now: float,
        *,
        reserved: Bytes | None = None,
    ) -> None:
        """Count the samples of a running pod that are new since the last call.

        For a pod on several accelerators, `pod_uid` names the pod and the accelerator. `reserved` is what the
        scheduler counted for the pod; without it, its limit or what earlier runs took.
        """
        learner = self._learner(key, now)
        if learner is None:
            return
        run = self._run(learner, pod_uid, series, started, limit)
        if reserved is not None:
            run.reserved = max(float(reserved), run.reserved or 0.0)
        first = bisect_right(series.times, max(run.counted, started))
        fresh = 0
        for at, value in zip(series.times[first:], series.values[first:], strict=True):
            self._count(learner, run, at, value)
            fresh += 1
        if fresh:
            learner.clean(fresh)
            learner.touch(now)
        if not run.settled and now - (run.met if run.late else run.started) >= MOST_RAMP:
            _settle(learner, run, now)

    def ended(self, pod_uid: str, crashed: bool, now: float, *, stopped: bool = False) -> None:
        """Learn from the end of a run; `crashed`: an allocation failed. An eviction is no crash.

        A run that was `stopped` before its ramp was over does not show in how little memory it would run.
        """
        run = self._runs.pop(pod_uid, None)
        learner = self._learners.get(run.key) if run is not None else None
        if run is None or learner is None:
            return
        whole = run.samples >= FEWEST_SAMPLES
        shown = whole and (run.settled or not stopped)
        if not run.settled and whole:
            _settle(learner, run, now)
        if crashed:
            _learn_crash(learner, run)
        elif shown and run.limit is not None and run.peak > learner.refused:
            peak = Bytes(round(run.peak))
            learner.least = peak if learner.least is None else min(learner.least, peak)
        learner.touch(now)

    def forget(self, pod_uids: Iterable[str]) -> None:
        """Drop runs of which no end was seen."""
        for uid in pod_uids:
            self._runs.pop(uid, None)

    def _learner(self, key: str, now: float) -> _Learner | None:
        learner = self._learners.get(key)
        if learner is None and key and len(key) <= LONGEST_KEY:
            learner = _Learner(Footprint(key, None, NO_BYTES, 0.0))
            learner.touch(now)
            self._learners[key] = learner
            self._bound()
        return learner

    def _bound(self) -> None:
        while len(self._learners) > self._most:
            del self._learners[min(self._learners.values(), key=lambda each: (each.updated, each.key)).key]

    def _run(
        self, learner: _Learner, pod_uid: str, series: Series, started: float, limit: Bytes | None
    ) -> _Run:
        run = self._runs.get(pod_uid)
        if run is None or run.key != learner.key or run.started != started:
            run = _Run(learner.key, started, limit, learner.known)
            if limit is None and learner.runs:
                run.reserved = learner.full * (1 + learner.margin)
            if series.times:
                run.met = max(series.times[0], learner.known, started)
                run.late = run.met - started > LONGEST_GAP
            self._runs[pod_uid] = run
        return run

    def _count(self, learner: _Learner, run: _Run, at: float, value: float) -> None:
        seconds = min(LONGEST_GAP, at - max(run.counted, run.started))
        run.counted = at
        run.samples += 1
        run.peak = max(run.peak, value)
        learner.full = Bytes(max(learner.full, round(value)))
        if run.reserved is not None and value > run.reserved:
            run.reserved = value  # the next surprise of this run is a higher peak
            learner.surprise(SURPRISE_STEP)
        if run.settled or run.late:
            if run.limit is None:
                learner.add_steady([(at, value, seconds)], at)
            return
        if value > run.record * GROWTH and at - run.started <= MOST_RAMP:
            run.record, run.grew = value, at
        if len(run.waiting) < MOST_WAITING:
            run.waiting.append((at, value, seconds))


def _settle(learner: _Learner, run: _Run, now: float) -> None:
    """End the ramp of a run, and count what came after it as steady use."""
    run.settled = True
    learner.runs += 1
    if not run.late:
        learner.add_ramp(run.grew - run.started)
    if run.limit is None:
        peak = Bytes(round(run.peak))
        learner.lowest = min(learner.lowest, peak) if learner.lowest else peak
        learner.add_steady([sample for sample in run.waiting if sample[0] >= run.grew], now)
    run.waiting.clear()
    learner.touch(now)


def _learn_crash(learner: _Learner, run: _Run) -> None:
    learner.surprise(CRASH_STEP)
    if run.limit is None:
        return
    learner.refused = max(learner.refused, run.limit)
    raised = round(run.limit * (1 + CRASH_STEP))
    if learner.full > run.limit:
        raised = min(raised, learner.full)
    learner.least = Bytes(max(learner.least or 0, raised))
    learner.full = Bytes(max(learner.full, raised))
