"""Collect series of any dialect into one report: resolve labels, check values, sum containers. Pure."""

from collections import Counter
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from fairlead.units import Bytes
from fairlead.usage.answer import SeriesLabels
from fairlead.usage.dialects import DialectMetric, UseQuantity, UseScope
from fairlead.usage.index import DeviceIndex
from fairlead.usage.limits import check_busy, check_memory
from fairlead.use import DeviceKey, PodDeviceKey, UseFault, UseReport, UseSample

ONE_SCRAPE: Final = 1.0
"""Seconds: values of one exporter that differ by less in time are of one scrape."""
_SLACK: Final = 1.1
"""A driver may show a little more memory than the size that a device is listed with."""
_LONGEST_UID: Final = 64
"""Characters; a uid is a UUID, or a digest of a static pod."""
K = TypeVar("K", DeviceKey, PodDeviceKey)


class _Row(NamedTuple):
    """The last value of a series, and the time of its first one in the answer."""

    at: float
    first: float
    part: str
    """The container or MIG instance; empty for a whole device."""
    value: float


_Rows = dict[K, list[_Row]]


@dataclass(frozen=True, slots=True)
class SeriesCount:
    """How many series a source answered with, and how many of them were of no known device or pod."""

    series: int = 0
    unknown_devices: int = 0
    unknown_pods: int = 0
    example: str = ""
    """The labels of the first series that was of no known device."""


class ReportCollector:
    """Series in, one report out."""

    def __init__(self, index: DeviceIndex) -> None:
        self._index = index
        self._devices: dict[UseQuantity, _Rows[DeviceKey]] = {each: {} for each in UseQuantity}
        self._pods: dict[UseQuantity, _Rows[PodDeviceKey]] = {each: {} for each in UseQuantity}
        self._held: dict[UseQuantity, _Rows[DeviceKey]] = {each: {} for each in UseQuantity}
        """Of devices whose series name a holder; the part is the holder's uid."""
        self._foreign: _Rows[DeviceKey] = {}
        self._faults = Counter[UseFault]()
        self._counts = Counter[str]()
        self._example = ""

    @property
    def count(self) -> SeriesCount:
        """The number of series so far."""
        counts = self._counts
        return SeriesCount(counts["series"], counts["devices"], counts["pods"], self._example)

    def add(
        self, metric: DialectMetric, labels: SeriesLabels, at: float, value: float, first: float | None = None
    ) -> None:
        """Add the last value of a series; `first` is the time of its first value in the answer."""
        self._counts["series"] += 1
        key = find_device(labels, self._index)
        if key is None:
            self._counts["devices"] += 1
            self._example = self._example or _describe(labels)
            return
        value *= metric.factor
        fault = self._check(metric.quantity, key, value)
        if fault is not None:
            self._faults[fault] += 1
            return
        row = _Row(at, at if first is None else first, labels.instance_id, value)
        if metric.scope is UseScope.FOREIGN:
            self._foreign.setdefault(key, []).append(row)
        elif metric.scope is UseScope.POD:
            self._add_pod(metric.quantity, key, labels, row)
        else:
            self._devices[metric.quantity].setdefault(key, []).append(row)
            if metric.scope is UseScope.HOLDER and (uid := find_pod(labels, self._index)):
                self._held[metric.quantity].setdefault(key, []).append(row._replace(part=uid))

    def report(self, now: float, source: str, detail: str = "") -> UseReport:
        """Return everything that was added."""
        for quantity, held in self._held.items():
            self._attribute(held, self._pods[quantity])
        devices = self._samples(self._devices)
        pods = self._samples(self._pods)
        foreign = {
            key: Bytes(round(settled[1]))
            for key, rows in self._foreign.items()
            if (settled := self._settle(rows)) is not None
        }
        return UseReport(now, source, devices, pods, foreign, dict(self._faults), detail)

    def _check(self, quantity: UseQuantity, key: DeviceKey, value: float) -> UseFault | None:
        if quantity is UseQuantity.BUSY:
            return check_busy(value)
        capacity = self._index.memory(key)
        return check_memory(value, int(capacity * _SLACK)) if capacity else check_memory(value)

    def _add_pod(self, quantity: UseQuantity, key: DeviceKey, labels: SeriesLabels, row: _Row) -> None:
        uid = labels.pod_uid or find_pod(labels, self._index)
        if not uid or len(uid) > _LONGEST_UID:
            self._counts["pods"] += 1
            return
        part = labels.exported_container or labels.container or "-"
        self._pods[quantity].setdefault(PodDeviceKey(uid, *key), []).append(row._replace(part=part))

    @staticmethod
    def _attribute(held: _Rows[DeviceKey], pods: _Rows[PodDeviceKey]) -> None:
        """Give the use of a device to its holder, unless there are several: then no pod's use is known."""
        for key, rows in held.items():
            newest = max(row.at for row in rows)
            current = [row for row in rows if row.at > newest - ONE_SCRAPE]
            if len({row.part for row in current}) == 1:
                pods[PodDeviceKey(current[0].part, *key)] = current

    def _samples(self, rows: dict[UseQuantity, _Rows[K]]) -> dict[K, UseSample]:
        memory, busy = rows[UseQuantity.MEMORY], rows[UseQuantity.BUSY]
        samples = {}
        for key in memory | busy:
            used = self._settle(memory[key]) if key in memory else None
            active = self._settle(busy[key]) if key in busy else None
            if used is not None or active is not None:
                samples[key] = _sample(used, active)
        return samples

    def _settle(self, rows: list[_Row]) -> tuple[float, float] | None:
        """Return the time and the value of a key; None if two series of it disagree."""
        if len(rows) == 1:
            return rows[0].at, rows[0].value
        parts: dict[str, _Row] = {}
        for row in sorted(rows, reverse=True):
            newer = parts.setdefault(row.part, row)
            # A series that ended before the other began was replaced by it: its exporter was restarted.
            if newer.value != row.value and row.at >= newer.first:
                self._faults[UseFault.DUPLICATE] += 1
                return None
        newest = max(row.at for row in parts.values())
        current = {part: row.value for part, row in parts.items() if row.at > newest - ONE_SCRAPE}
        return newest, current[""] if "" in current else sum(current.values())


def find_device(labels: SeriesLabels, index: DeviceIndex) -> DeviceKey | None:
    """Return the accelerator that a series is about; None: it is unknown."""
    node = index.node(
        labels.exported_node,
        labels.node,
        labels.kubernetes_node,
        labels.old_hostname,
        labels.hostname,
        labels.instance,
    )
    return index.device(node, labels.id or labels.uuid, labels.pci, labels.gpu, labels.instance_id)


def find_pod(labels: SeriesLabels, index: DeviceIndex) -> str:
    """Return the uid of the pod that a series names; empty: it names none that holds an accelerator.

    A job without `honor_labels` renames the exposed labels, and gives the series those of the exporter's pod.
    """
    if labels.exported_pod:
        return index.pod(labels.exported_namespace or labels.namespace, labels.exported_pod)
    return index.pod(labels.namespace, labels.pod)


def _sample(used: tuple[float, float] | None, active: tuple[float, float] | None) -> UseSample:
    """Return a sample of one time: of two values of different scrapes, the newer."""
    newest = max(each[0] for each in (used, active) if each is not None)
    memory = used[1] if used is not None and used[0] > newest - ONE_SCRAPE else None
    busy = active[1] if active is not None and active[0] > newest - ONE_SCRAPE else None
    return UseSample(
        newest, None if memory is None else Bytes(round(memory)), None if busy is None else min(1.0, busy)
    )


def _describe(labels: SeriesLabels) -> str:
    node = labels.exported_node or labels.node or labels.old_hostname or labels.hostname or labels.instance
    return f"node {node[:80]!r}, device {(labels.id or labels.uuid or labels.pci or labels.gpu)[:80]!r}"
