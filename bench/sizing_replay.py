"""Recorded series of pods, replayed: what the shipped sizes would have packed, and what then happened."""

import csv
import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fairlead.need import Need, effective_size, headroom
from fairlead.series import Series, Staleness
from fairlead.sizing.footprint import FootprintBook
from fairlead.sizing.needs import TERM, need_of, sample_bound
from fairlead.units import Bytes

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

PERIOD = 57.0
"""Seconds between two samples of the recording."""
SPAN = int(TERM / PERIOD)
"""Samples of one term."""
WINDOW = 240
"""Samples of its own that the scheduler holds of a pod; older ones are in the footprint."""
LEAST_PAST = 20
"""Samples before the first moment of a pod: its ramp, and the fewest that `need_of` takes."""
OVERPROVISION = 1.5
"""The recording has no requests: each is taken as the peak times this."""
DEEPEST = 24
"""Pods that are tried for each device: more than the largest device takes."""
CHUNK = 10_000


@dataclass(frozen=True)
class Recorded:
    """The series of one pod; `whole`: the recording shows its start."""

    times: list[float]
    values: list[float]
    whole: bool

    @property
    def request(self) -> Bytes:
        """The request that the pod is taken to have."""
        return Bytes(round(max(self.values) * OVERPROVISION))


@dataclass(frozen=True)
class Moments:
    """Moments in the lives of pods: what was known then, and what came after; one row for each."""

    pods: Ints
    needs: list[Need]
    requests: Floats
    peaks: Floats
    means: Floats
    future: Floats
    """Every sample after the moment; zero after the end of the pod."""
    groups: Ints
    """Only moments of one group are placed together: the same time of the clock, or all."""


def read(path: str) -> list[Recorded]:
    """Read the recording: a CSV of time, value and pod, in a tar archive."""
    rows: dict[str, list[tuple[float, float]]] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is None:
                continue
            reader = csv.reader(io.TextIOWrapper(file))
            next(reader)
            for time, value, pod in reader:
                rows.setdefault(pod, []).append((float(time), float(value)))
    first = min(time for samples in rows.values() for time, _ in samples)
    recorded = []
    for _, samples in sorted(rows.items()):
        samples.sort()
        if max(value for _, value in samples) > 0:
            times, values = zip(*samples, strict=True)
            recorded.append(Recorded(list(times), list(values), times[0] > first))
    return recorded


def moments_of(recorded: Sequence[Recorded], cuts: Sequence[Ints], *, by_clock: bool = False) -> Moments:
    """Return what the scheduler would know of each pod at each of its cuts, and what came after."""
    rows = []
    for index, (pod, cut) in enumerate(zip(recorded, cuts, strict=True)):
        # A pod that runs since before the recording has its ramp behind it.
        started = pod.times[0] if pod.whole else pod.times[0] - 86400.0
        book, done = FootprintBook(), 0
        for order, end in enumerate(cut.tolist()):
            if end < LEAST_PAST:
                continue
            seen = Series(pod.times[done:end], pod.values[done:end])
            book.observe("image", "pod", seen, started, None, pod.times[end - 1])
            done = end
            own = Series(pod.times[max(0, end - WINDOW) : end], pod.values[max(0, end - WINDOW) : end])
            now = pod.times[end - 1]
            need = need_of(pod.request, book.get("image"), own, started, now, Staleness.FRESH)
            past = pod.values[:end]
            figures = (pod.request, max(past), sum(past) / len(past))
            rows.append((index, need, figures, pod.values[end:], order if by_clock else 0))
    return gather(rows)


def gather(rows: Sequence[tuple[int, Need, tuple[float, float, float], Sequence[float], int]]) -> Moments:
    """Return rows of pod, need, (request, peak, mean), later values and group as columns."""
    future = np.zeros((len(rows), max(SPAN, *(len(row[3]) for row in rows))), np.float32)
    for at, row in enumerate(rows):
        future[at, : len(row[3])] = row[3]
    requests, peaks, means = np.array([row[2] for row in rows], np.float32).T
    return Moments(
        np.array([row[0] for row in rows]), [row[1] for row in rows], requests, peaks, means, future,
        np.array([row[4] for row in rows]),
    )  # fmt: skip


class Draws:
    """Draws of moments: first a group, then pods, with replacement or distinct, then one moment of each."""

    def __init__(self, moments: Moments, pods: Ints | None = None, *, distinct: bool = False) -> None:
        self._distinct = distinct
        chosen = np.unique(moments.pods) if pods is None else pods
        self._groups: list[list[Ints]] = []
        for group in np.unique(moments.groups):
            there = np.flatnonzero(moments.groups == group)
            by_pod = {int(pod): there[moments.pods[there] == pod] for pod in np.unique(moments.pods[there])}
            self._groups.append([by_pod[int(pod)] for pod in chosen if int(pod) in by_pod])

    def take(self, placements: int, rng: np.random.Generator) -> Ints:
        """Return rows of moments, `DEEPEST` for each placement."""
        share = -(-placements // len(self._groups))
        drawn = []
        for pods in self._groups:
            if not pods:
                continue
            starts = np.cumsum([0] + [len(rows) for rows in pods[:-1]])
            rows, lengths = np.concatenate(pods), np.array([len(rows) for rows in pods])
            at = rng.integers(len(pods), size=(share, DEEPEST))
            if self._distinct:
                at = rng.random((share, len(pods))).argsort(axis=1)[:, :DEEPEST]
            drawn.append(rows[starts[at] + (rng.random(at.shape) * lengths[at]).astype(np.int64)])
        return np.concatenate(drawn)[:placements]


def sizes_of(moments: Moments, bound: float, capacity: int) -> Floats:
    """Return the size by which the engine counts each moment."""
    per_sample = sample_bound(bound)
    return np.array(
        [effective_size(replace(need, bound=per_sample), capacity) for need in moments.needs], np.float32
    )


def packed(sizes: Floats, drawn: Ints, room: float) -> Ints:
    """Return how many pods of each placement fit, one after another, until the next does not."""
    fits: Ints = (np.cumsum(sizes[drawn].astype(np.float64), axis=1) <= room).sum(axis=1)
    return fits


def packed_safely(sizes: Floats, drawn: Ints, capacity: int) -> Ints:
    """Return how many pods fit beside the headroom."""
    return packed(sizes, drawn, capacity - headroom(capacity))


def violated(
    moments: Moments, drawn: Ints, counts: Ints, capacity: int, span: int = SPAN
) -> npt.NDArray[np.int64]:
    """Return for each placement in how many samples its pods together hold more than the device has."""
    over = np.zeros(len(drawn), np.int64)
    future = moments.future[:, :span]
    for start in range(0, len(drawn), CHUNK):
        rows, fits = drawn[start : start + CHUNK], counts[start : start + CHUNK]
        total = np.zeros((len(rows), future.shape[1]), np.float32)
        for depth in range(int(fits.max(initial=0))):
            placed = np.flatnonzero(fits > depth)
            total[placed] += future[rows[placed, depth]]
        over[start : start + CHUNK] = (total > capacity).sum(axis=1)
    return over
