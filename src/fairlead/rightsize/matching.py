"""Which series belong to which container: by the pod's uid or name, also of pods that are gone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import Final

from fairlead.rightsize.workload import (
    PodSeries,
    RequestForm,
    SizedContainer,
    SizeField,
    WorkloadKey,
    matching_workload,
)
from fairlead.series import Series
from fairlead.units import Bytes

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class MatchedSeries:
    """The series of each container, in the order of the containers, and how many belong to none."""

    by_container: tuple[tuple[PodSeries, ...], ...]
    unmatched: int = 0


def match(containers: Sequence[SizedContainer], series: Iterable[PodSeries]) -> MatchedSeries:
    """Assign each series to a container, and add up what containers of one pod hold of one accelerator."""
    finder = _Finder(containers)
    found: list[dict[tuple[str, str], list[PodSeries]]] = [{} for _ in containers]
    unmatched = 0
    for each in series:
        place = finder.place(each)
        if place is None:
            unmatched += 1
            continue
        found[place].setdefault((each.id or f"{each.namespace}/{each.pod}", each.device), []).append(each)
    return MatchedSeries(tuple(tuple(map(_added, pods.values())) for pods in found), unmatched)


class _Finder:
    """The places of containers by what a series can name."""

    def __init__(self, containers: Sequence[SizedContainer]) -> None:
        self._by_name: dict[str, WorkloadKey] = {}
        self._places: dict[WorkloadKey, dict[str, int]] = {}
        for place, each in enumerate(containers):
            names = (*each.uids, *(f"{each.workload.namespace}/{pod}" for pod in each.pods))
            self._by_name.update(dict.fromkeys(names, each.workload))
            self._places.setdefault(each.workload, {})[each.container] = place
        self._by_owner: dict[tuple[str, str], list[WorkloadKey]] = {}
        for key in self._places:
            self._by_owner.setdefault((key.namespace, key.name), []).append(key)
        self._gone: dict[tuple[str, str], WorkloadKey | None] = {}

    def place(self, series: PodSeries) -> int | None:
        """Return the container of a series; None: it has none, or several could be meant."""
        workload = self._by_name.get(series.id or f"{series.namespace}/{series.pod}")
        if workload is None and series.pod:
            workload = self._workload_of_gone(series.namespace, series.pod)
        places = self._places.get(workload, {}) if workload else {}
        if len(places) == 1:
            return next(iter(places.values()))
        return places.get(series.container)

    def _workload_of_gone(self, namespace: str, pod: str) -> WorkloadKey | None:
        key = (namespace, pod)
        if key not in self._gone:
            parts = pod.split("-")
            stems = ("-".join(parts[:end]) for end in range(len(parts), max(0, len(parts) - 4), -1))
            near = [owner for stem in stems for owner in self._by_owner.get((namespace, stem), ())]
            self._gone[key] = matching_workload(namespace, pod, near)
        return self._gone[key]


def _added(group: list[PodSeries]) -> PodSeries:
    """Return the sum of the series of one pod on one accelerator."""
    first = group[0]
    if len(group) == 1:
        return first
    memory = add_series([each.memory for each in group])
    return PodSeries(first.namespace, first.pod, "", first.device, first.id, memory, first.busy)


def add_series(series: Sequence[Series]) -> Series:
    """Return the sum at every time of any of them; between its samples a series keeps its last value."""
    now = [0.0] * len(series)
    points = merge(*(_points(number, each) for number, each in enumerate(series)))
    times: list[float] = []
    values: list[float] = []
    for time, changes in groupby(points, key=lambda point: point[0]):
        for _, number, value in changes:
            now[number] = value
        times.append(time)
        values.append(sum(now))
    return Series(tuple(times), tuple(values), series[0].source)


def _points(number: int, series: Series) -> Iterable[tuple[float, int, float]]:
    return [(time, number, value) for time, value in zip(series.times, series.values, strict=True)]


def assumed(
    series: Iterable[PodSeries], factor: float | None, size: Bytes | None, device_memory: Bytes | None
) -> list[SizedContainer]:
    """Return a container for each series, with a request that is stated and not known."""
    containers: dict[WorkloadKey, dict[str, list[PodSeries]]] = {}
    for each in series:
        named = f"{each.pod}/{each.container}".rstrip("/") if each.pod else each.id
        key = WorkloadKey(each.namespace, "Pod" if each.pod else "", each.pod or each.id)
        containers.setdefault(key, {}).setdefault(named, []).append(each)
    return [
        SizedContainer(
            key,
            group[0].container,
            SizeField(RequestForm.ASSUMED),
            size if size is not None else _times_peak(group, factor or 1.0),
            (key.name,),
            (group[0].id,) if group[0].id else (),
            device_memory=device_memory,
            note="its series shows no use, so that no request can be assumed",
        )
        for key, by_name in containers.items()
        for group in by_name.values()
    ]


def _times_peak(group: Iterable[PodSeries], factor: float) -> Bytes | None:
    peak = max((value for each in group for value in each.memory.values), default=0.0)
    return Bytes(-int(-peak * factor // _MIB) * _MIB) if peak else None
