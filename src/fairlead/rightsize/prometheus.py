"""The memory of pods over hours, from Prometheus: a point is the peak of its step, so that none is missed."""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

from fairlead.cluster.http.fetch import Fetcher
from fairlead.rightsize.workload import PodSeries
from fairlead.series import Series
from fairlead.usage.answer import RawSeries, SeriesLabels, to_number
from fairlead.usage.collect import find_device, find_pod
from fairlead.usage.dialects import DIALECTS, Dialect, DialectMetric, UseQuantity, UseScope
from fairlead.usage.index import DeviceIndex
from fairlead.usage.limits import PERIOD, check_busy, check_memory
from fairlead.usage.prometheus import SOURCE, PrometheusSource, QueryFault
from fairlead.use import UseFault

POINTS: Final = 480
"""The most points of a series: a step is three minutes where the window is a day."""
_SHORTEST_STEP: Final = 15.0


class _AnyIndex(DeviceIndex):
    """An index that knows no cluster: accelerators and pods keep the names that their series carry."""

    def pod(self, namespace: str, name: str) -> str:
        return f"{namespace}/{name}" if name else ""


_ANY: Final = _AnyIndex(known_only=False)


class PodHistoryReader(PrometheusSource):
    """Reads the series of pods in the dialect that the cluster has."""

    def __init__(self, fetcher: Fetcher, url: str) -> None:
        super().__init__(fetcher, url, lambda: _ANY, PERIOD)

    async def pod_series(self, window: float) -> list[PodSeries] | QueryFault:
        """Return the series of all pods of the last `window` seconds, also of pods that are gone."""
        for dialect in DIALECTS:
            series = await self._pods_in(dialect, window)
            if isinstance(series, QueryFault) or series:
                return series
        names = ", ".join(name for dialect in DIALECTS for name in _memory_names(dialect))
        return QueryFault(
            UseFault.NO_SERIES,
            f"{self._url} has no series of {names} that name a pod; see `fairlead docs rightsize`",
        )

    async def _pods_in(self, dialect: Dialect, window: float) -> list[PodSeries] | QueryFault:
        answers: dict[UseQuantity, list[RawSeries]] = {}
        held = False
        for metric in dialect.metrics:
            if metric.scope not in (UseScope.POD, UseScope.HOLDER):
                continue
            held = metric.scope is UseScope.HOLDER
            answer = await self._query(steps_query(metric, window))
            if isinstance(answer, QueryFault):
                return answer
            answers[metric.quantity] = answer
        memory = [each for each in answers.get(UseQuantity.MEMORY, ()) if _pod(each.metric)[1]]
        if held:
            memory = without_shared_devices(memory)
        busy = {_key(each.metric): each for each in answers.get(UseQuantity.BUSY, ())}
        return [_pod_series(each, busy.get(_key(each.metric))) for each in memory]


def _memory_names(dialect: Dialect) -> list[str]:
    scopes = (UseScope.POD, UseScope.HOLDER)
    metrics = dialect.metrics
    return [each.name for each in metrics if each.scope in scopes and each.quantity is UseQuantity.MEMORY]


def steps_query(metric: DialectMetric, window: float) -> str:
    """Return the query for the steps of a metric: the peak of memory, the mean of busy time."""
    step = ceil(max(_SHORTEST_STEP, window / POINTS))
    function = "max" if metric.quantity is UseQuantity.MEMORY else "avg"
    times = "" if metric.factor == 1.0 else f" * {metric.factor:.12g}"
    return f"({function}_over_time({metric.name}[{step}s]){times})[{ceil(window)}s:{step}s]"


def without_shared_devices(series: Sequence[RawSeries]) -> list[RawSeries]:
    """Return the series of devices with one pod at a time: of a shared one, no pod's part is known."""
    by_device: dict[tuple[str, ...], list[RawSeries]] = {}
    for each in series:
        by_device.setdefault(_device(each.metric), []).append(each)
    return [each for group in by_device.values() for each in group if _is_alone(each, group)]


def _is_alone(series: RawSeries, group: Iterable[RawSeries]) -> bool:
    others = [each for each in group if _pod(each.metric) != _pod(series.metric) and each.values]
    return bool(series.values) and not any(
        each.values[0][0] <= series.values[-1][0] and series.values[0][0] <= each.values[-1][0]
        for each in others
    )


def _pod(labels: SeriesLabels) -> tuple[str, str]:
    namespace, _, name = find_pod(labels, _ANY).partition("/")
    return namespace, name


def _device(labels: SeriesLabels) -> tuple[str, ...]:
    return (*(find_device(labels, _ANY) or ()), labels.gpu, labels.instance_id)


def _key(labels: SeriesLabels) -> tuple[str, ...]:
    return (*_pod(labels), labels.exported_container or labels.container, *_device(labels))


def _pod_series(memory: RawSeries, busy: RawSeries | None) -> PodSeries:
    labels = memory.metric
    points = [(at, number) for at, text in memory.values if check_memory(number := to_number(text)) is None]
    active = busy.values if busy is not None else []
    shares = [(at, number) for at, text in active if check_busy(number := to_number(text)) is None]
    return PodSeries(
        *_pod(labels),
        labels.exported_container or labels.container,
        "/".join(filter(None, _device(labels))),
        labels.pod_uid,
        _of(points),
        _of(shares),
    )


def _of(points: Sequence[tuple[float, float]]) -> Series:
    return Series(tuple(at for at, _ in points), tuple(value for _, value in points), SOURCE)
