"""An inventory and its latest samples as a page in Prometheus' text format.

`fairlead_*` metrics are in base units. Beside them, every GPU has the names, units and labels that NVIDIA's
dcgm-exporter gives to its own, those up to 4.8 and those since 4.9, so that dashboards made for it work here.
"""

import platform
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from os.path import basename
from typing import Final

from fairlead import __version__, dcgm
from fairlead.host import printable
from fairlead.inventory import Accelerator, Inventory, State
from fairlead.offer import Form, Holding
from fairlead.telemetry import Metric, Sample

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LABEL_LIMIT: Final = 200
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_STEPS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
BOUNDS: Final = (*_STEPS, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: the upper bounds of a histogram's buckets."""
Row = tuple[Sequence[str], float]
"""The label values of a series, and its value."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric: its name, its help text, and its series."""

    name: str
    kind: str
    text: str
    labels: Sequence[str]
    series: Mapping[tuple[str, ...], float]

    def lines(self) -> Iterator[str]:
        """Yield the metric in the text format."""
        yield f"# HELP {self.name} {self.text}\n# TYPE {self.name} {self.kind}\n"
        for values, value in self.series.items():
            pairs = zip(self.labels, values, strict=True)
            inside = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in pairs)
            yield f"{self.name}{{{inside}}} {value!r}\n" if inside else f"{self.name} {value!r}\n"


@dataclass(slots=True)
class Histogram:
    """A histogram of durations in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        """Add one duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def lines(self, name: str, text: str) -> Iterator[str]:
        """Yield the histogram in the text format."""
        yield f"# HELP {name} {text}\n# TYPE {name} histogram\n"
        sums = list(accumulate(self.counts))
        for bound, number in zip((*BOUNDS, float("inf")), sums, strict=True):
            yield f'{name}_bucket{{le="{"+Inf" if bound == float("inf") else repr(bound)}"}} {number}\n'
        yield f"{name}_sum {self.total!r}\n{name}_count {sums[-1]}\n"


@dataclass(frozen=True, slots=True)
class PublishStatus:
    """The writes of the agent, and the holdings of pods and claims."""

    writes: Mapping[str, int] = field(default_factory=dict)
    """Writes to the API server, by object."""
    errors: Mapping[str, int] = field(default_factory=dict)
    registered: Mapping[str, bool] = field(default_factory=dict)
    """Whether the kubelet has accepted a plugin, by resource."""
    holdings: tuple[Holding, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    """Allocations that were refused, by form."""
    pod_resources_age: float | None = None
    """Seconds since the kubelet's pod resources were read."""


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """The values of a metrics page."""

    inventory: Inventory
    samples: tuple[Sample, ...] = ()
    node: str = ""
    """The machine's name, for the DCGM-compatible metrics; empty omits it."""
    scans: Mapping[str, int] = field(default_factory=dict)
    """The number of scans, by trigger."""
    scan_seconds: float = 0.0
    scanned_at: float = 0.0
    publishing: PublishStatus | None = None
    dcgm_names: dcgm.Names = dcgm.Names.BOTH
    """Which of DCGM's names the metrics of GPUs carry."""


_MEASURED: Final = {  # metric: help, and the label that distinguishes several values
    Metric.MEMORY_USED: ("Memory in use; where unified, of the whole machine.", "unified"),
    Metric.MEMORY_FREE: ("Memory that is still available.", "unified"),
    Metric.BUSY: ("Share of time in which the accelerator was busy.", ""),
    Metric.MEMORY_BUSY: ("Share of time in which the accelerator's memory was busy.", ""),
    Metric.POWER: ("Power draw; on a Jetson, of the rails that feed the GPU.", ""),
    Metric.TEMPERATURE: ("Temperature of a sensor.", "sensor"),
    Metric.TEMPERATURE_LIMIT: ("Temperature at which the accelerator slows down or stops.", "sensor"),
    Metric.CLOCK: ("Clock frequency.", "clock"),
    Metric.CLOCK_MIN: ("Lowest clock frequency allowed at present.", "clock"),
    Metric.CLOCK_MAX: ("Highest clock frequency allowed at present.", "clock"),
    Metric.LINK: ("Negotiated rate of the link to the host.", ""),
    Metric.MEMORY_RESERVED: ("Memory that the driver reserves for itself.", ""),
    Metric.ROW_REMAP: ("1 if the remapping of a row of memory is pending, or has failed.", "remap"),
    Metric.RETIREMENT_PENDING: ("1 if pages of memory will be retired at the next reset.", ""),
    Metric.NVLINK_UP: ("1 if an NVLink is active.", "link"),
    Metric.XID: ("The last XID that the driver reported; 0 before the first.", ""),
}
_COUNTED: Final = {  # totals: help, and the label that distinguishes several values
    Metric.ECC_ERRORS: ("Memory errors, volatile ones since the driver was loaded.", "counter"),
    Metric.REMAPPED_ROWS: ("Remapped rows of memory, by the error that caused it.", "cause"),
    Metric.RETIRED_PAGES: ("Retired pages of memory, by the error that caused it.", "cause"),
    Metric.PCIE_REPLAYS: ("Retries on the PCIe link.", ""),
    Metric.NVLINK_ERRORS: ("Errors of all NVLinks.", "counter"),
    Metric.NVLINK_BYTES: ("Bytes transferred over all NVLinks.", "direction"),
}
_REASONS: Final = (  # NVML's clock event reasons, bit by bit, by the names that DCGM gives them
    "gpu_idle",
    "clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal",
    "hw_thermal",
    "hw_power_brake",
    "display_clocks",
)
_DCGM: Final = (  # DCGM's old name, metric, detail (None: the first there is)
    ("SM_CLOCK", Metric.CLOCK, "core"),
    ("MEM_CLOCK", Metric.CLOCK, "memory"),
    ("GPU_TEMP", Metric.TEMPERATURE, None),
    ("POWER_USAGE", Metric.POWER, None),
    ("TOTAL_ENERGY_CONSUMPTION", Metric.ENERGY, None),
    ("GPU_UTIL", Metric.BUSY, None),
    ("MEM_COPY_UTIL", Metric.MEMORY_BUSY, None),
    ("FB_TOTAL", Metric.MEMORY_TOTAL, None),
    ("FB_FREE", Metric.MEMORY_FREE, None),
    ("FB_USED", Metric.MEMORY_USED, None),
    ("FB_RESERVED", Metric.MEMORY_RESERVED, None),
    ("XID_ERRORS", Metric.XID, None),
    ("PCIE_REPLAY_COUNTER", Metric.PCIE_REPLAYS, None),
    ("CLOCK_THROTTLE_REASONS", Metric.CLOCKS_EVENTS, None),
    ("ECC_SBE_VOL_TOTAL", Metric.ECC_ERRORS, "corrected-volatile"),
    ("ECC_DBE_VOL_TOTAL", Metric.ECC_ERRORS, "uncorrected-volatile"),
    ("ECC_SBE_AGG_TOTAL", Metric.ECC_ERRORS, "corrected-aggregate"),
    ("ECC_DBE_AGG_TOTAL", Metric.ECC_ERRORS, "uncorrected-aggregate"),
    ("RETIRED_SBE", Metric.RETIRED_PAGES, "single-bit"),
    ("RETIRED_DBE", Metric.RETIRED_PAGES, "double-bit"),
    ("RETIRED_PENDING", Metric.RETIREMENT_PENDING, None),
    ("CORRECTABLE_REMAPPED_ROWS", Metric.REMAPPED_ROWS, "correctable"),
    ("UNCORRECTABLE_REMAPPED_ROWS", Metric.REMAPPED_ROWS, "uncorrectable"),
    ("ROW_REMAP_FAILURE", Metric.ROW_REMAP, "failed"),
    ("ROW_REMAP_PENDING", Metric.ROW_REMAP, "pending"),
    ("NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", Metric.NVLINK_ERRORS, "crc-flit"),
    ("NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", Metric.NVLINK_ERRORS, "crc-data"),
    ("NVLINK_REPLAY_ERROR_COUNT_TOTAL", Metric.NVLINK_ERRORS, "replay"),
    ("NVLINK_RECOVERY_ERROR_COUNT_TOTAL", Metric.NVLINK_ERRORS, "recovery"),
)
_DCGM_LABELS: Final = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname")
_NEW_LABELS: Final = tuple(dcgm.LABELS.get(label, label) for label in _DCGM_LABELS)


def render(snapshot: MetricsSnapshot) -> bytes:
    """Return the page: every metric that has a value."""
    families = (
        *_inventory_metrics(snapshot.inventory),
        *_sample_metrics(snapshot),
        *_dcgm(snapshot),
        *_agent_metrics(snapshot),
        *(_holding_metrics(snapshot.inventory, snapshot.publishing) if snapshot.publishing else ()),
        *(_publish_metrics(snapshot.publishing) if snapshot.publishing else ()),
    )
    return "".join(line for family in families for line in family.lines()).encode()


def _inventory_metrics(inventory: Inventory) -> Iterator[MetricFamily]:
    """Yield the metrics of the inventory."""
    accs = inventory.accelerators
    labels = ("id", "model", "name", "vendor", "kind", "bus", "driver", "driver_version", "uuid", "node")
    facts = ((_info_labels(acc), 1.0) for acc in accs)
    yield from _gauge("fairlead_accelerator_info", "What the accelerator is.", labels, facts)
    states = (((*_id_labels(acc), state.value), float(acc.state == state)) for acc in accs for state in State)
    text = "Whether the accelerator is in this state."
    yield from _gauge("fairlead_accelerator_state", text, ("id", "model", "state"), states)
    confidences = ((_id_labels(acc), acc.confidence) for acc in accs)
    text = "Confidence that the accelerator is correctly identified, from 0 to 1."
    yield from _gauge("fairlead_accelerator_confidence", text, ("id", "model"), confidences)
    best = ((_id_labels(acc), acc.link.best) for acc in accs if acc.link)
    text = "Maximum rate of the link to the host."
    yield from _gauge("fairlead_accelerator_link_max_bits_per_second", text, ("id", "model"), best)
    yield from _rates("peak_ops", "Peak operations per second.", ((acc, acc.peak) for acc in accs))
    text = "Operations per second under the present clock cap and link."
    yield from _rates("effective_ops", text, ((acc, acc.effective) for acc in accs))
    unknown = [((), float(len(inventory.unknown)))]
    text = "Devices shaped like an accelerator that the catalog does not know."
    yield from _gauge("fairlead_unknown_devices", text, (), unknown)


def _rates(
    name: str, text: str, tables: Iterable[tuple[Accelerator, Mapping[str, float]]]
) -> Iterator[MetricFamily]:
    rows = (
        ((*_id_labels(acc), precision), rate) for acc, table in tables for precision, rate in table.items()
    )
    yield from _gauge(f"fairlead_accelerator_{name}", text, ("id", "model", "precision"), rows)


def _sample_metrics(snapshot: MetricsSnapshot) -> Iterator[MetricFamily]:
    """Yield the metrics of the samples."""
    accs = {acc.id: acc for acc in snapshot.inventory.accelerators}
    known = [item for item in snapshot.samples if item.accelerator in accs]
    totals = {item.accelerator: item.value for item in known if item.metric is Metric.MEMORY_TOTAL}
    sizes = ((acc, totals.get(acc.id, acc.memory)) for acc in accs.values())
    rows: Iterable[Row] = (((*_id_labels(acc), _unified(acc)), size) for acc, size in sizes if size)
    text = "Memory that the accelerator can use; where unified, the machine's RAM."
    yield from _gauge("fairlead_accelerator_memory_bytes", text, ("id", "model", "unified"), rows)
    for metric, (text, label) in _MEASURED.items():
        mine = [(accs[item.accelerator], item) for item in known if item.metric is metric]
        labels = ("id", "model", label) if label else ("id", "model")
        rows = (((*_id_labels(acc), *_details(label, acc, item)), item.value) for acc, item in mine)
        yield from _gauge(f"fairlead_accelerator_{metric.value}", text, labels, rows)
    spent = ((_id_labels(accs[i.accelerator]), i.value) for i in known if i.metric is Metric.ENERGY)
    text = "Energy consumed since the driver was loaded."
    yield from _counter("fairlead_accelerator_energy_joules_total", text, ("id", "model"), spent)
    yield from _total_metrics(accs, known)
    rails = (((i.detail,), i.value) for i in known if i.metric is Metric.RAIL_POWER)
    yield from _gauge("fairlead_power_rail_watts", "Power draw of a rail of the board.", ("rail",), rails)


def _total_metrics(accs: Mapping[str, Accelerator], known: Sequence[Sample]) -> Iterator[MetricFamily]:
    """Yield the totals, and one series for each reason for low clocks."""
    for metric, (text, label) in _COUNTED.items():
        mine = [item for item in known if item.metric is metric]
        labels = ("id", "model", label) if label else ("id", "model")
        rows: Iterable[Row] = (
            ((*_id_labels(accs[item.accelerator]), *([item.detail] if label else [])), item.value)
            for item in mine
        )
        yield from _counter(f"fairlead_accelerator_{metric.value}", text, labels, rows)
    masks = [(accs[i.accelerator], int(i.value)) for i in known if i.metric is Metric.CLOCKS_EVENTS]
    rows = (
        ((*_id_labels(acc), reason), float(mask >> bit & 1))
        for acc, mask in masks
        for bit, reason in enumerate(_REASONS)
    )
    text = "Whether the clocks are below their maximum for this reason."
    yield from _gauge("fairlead_accelerator_clocks_event", text, ("id", "model", "reason"), rows)


def _dcgm(snapshot: MetricsSnapshot) -> Iterator[MetricFamily]:
    """Yield the GPUs' samples under DCGM's names, old and new."""
    gpus = [acc for acc in snapshot.inventory.accelerators if acc.kind == "gpu"]
    gpus.sort(key=lambda acc: acc.vendor != "NVIDIA")  # NVIDIA's keep their numbers if there are others
    labels = {acc.id: _dcgm_labels(index, acc, snapshot.node) for index, acc in enumerate(gpus)}
    for name, metric, detail in _DCGM:
        field = dcgm.FIELDS[f"DCGM_FI_DEV_{name}"]
        rows: dict[str, list[Row]] = {}
        for item in snapshot.samples:
            if item.metric is metric and item.accelerator in labels and detail in (None, item.detail):
                for exposed_name, value in dcgm.write(field, item.value, snapshot.dcgm_names):
                    rows.setdefault(exposed_name, []).append((labels[item.accelerator], round(value, 6)))
        for exposed_name, mine in rows.items():
            old = exposed_name == field.old and snapshot.dcgm_names is not dcgm.Names.NEW
            keys = _DCGM_LABELS if old else _NEW_LABELS
            yield from _family(exposed_name, field.kind, field.help(exposed_name), keys, mine)


def _agent_metrics(snapshot: MetricsSnapshot) -> Iterator[MetricFamily]:
    """Yield the metrics of the agent itself."""
    version = [((__version__, platform.python_version()), 1.0)]
    text = "The program that serves this page."
    yield from _gauge("fairlead_build_info", text, ("version", "python"), version)
    scans = (((trigger,), float(count)) for trigger, count in snapshot.scans.items())
    yield from _counter("fairlead_scans_total", "Scans of the whole machine.", ("trigger",), scans)
    lasted: list[Row] = [((), snapshot.scan_seconds)]
    yield from _gauge("fairlead_scan_duration_seconds", "Duration of the last scan.", (), lasted)
    ended: list[Row] = [((), snapshot.scanned_at)]
    yield from _gauge("fairlead_last_scan_timestamp_seconds", "Time when the last scan ended.", (), ended)


def _holding_metrics(inventory: Inventory, publishing: PublishStatus) -> Iterator[MetricFamily]:
    """Yield the holdings of pods and claims; a whole accelerator counts with all of its memory."""
    accs = {acc.id: acc for acc in inventory.accelerators}
    held = [
        (accs[holding.accelerator], holding) for holding in publishing.holdings if holding.accelerator in accs
    ]
    sums: dict[tuple[str, ...], float] = {}
    counts: dict[tuple[str, ...], float] = {}
    for acc, holding in held:
        key = (*_id_labels(acc), holding.form.value)
        sums[key] = sums.get(key, 0.0) + _amount(acc, holding)
        counts[key] = counts.get(key, 0.0) + 1
    labels: Sequence[str] = ("id", "model", "form")
    text = "Memory of the accelerator that containers and claims hold; all of it if it is held whole."
    yield from _gauge("fairlead_accelerator_allocated_bytes", text, labels, sums.items())
    text = "Containers and claims that hold the accelerator or a part of it."
    yield from _gauge("fairlead_accelerator_allocations", text, labels, counts.items())
    rows = (
        (_pod_labels(acc, holding), _amount(acc, holding))
        for acc, holding in held
        if holding.form is not Form.CLAIM
    )
    text = "Memory of an accelerator that a container holds."
    labels = ("namespace", "pod", "container", "id", "model", "form")
    yield from _gauge("fairlead_pod_accelerator_bytes", text, labels, rows)


def _pod_labels(acc: Accelerator, holding: Holding) -> tuple[str, ...]:
    holder = holding.holder
    return holder.namespace, holder.name, holder.container, *_id_labels(acc), holding.form.value


def _amount(acc: Accelerator, holding: Holding) -> float:
    return float(holding.mebibytes << 20) if holding.mebibytes else float(acc.memory or 0)


def _publish_metrics(publishing: PublishStatus) -> Iterator[MetricFamily]:
    """Yield the metrics of publishing."""
    rows: Iterable[Row] = (((what,), float(count)) for what, count in publishing.writes.items())
    text = "Writes to the API server, by object; none while nothing changes."
    yield from _counter("fairlead_api_writes_total", text, ("object",), rows)
    rows = (((what,), float(count)) for what, count in publishing.errors.items())
    text = "Writes to the API server that failed."
    yield from _counter("fairlead_api_errors_total", text, ("object",), rows)
    rows = (((resource,), float(known)) for resource, known in publishing.registered.items())
    text = "Whether the kubelet has accepted the plugin of a resource; `claims` is the DRA plugin."
    yield from _gauge("fairlead_plugin_registered", text, ("resource",), rows)
    rows = (((form,), float(count)) for form, count in publishing.refused.items())
    text = "Allocations refused because the accelerator is already held in another form."
    yield from _counter("fairlead_allocations_refused_total", text, ("form",), rows)
    age: list[Row] = [] if publishing.pod_resources_age is None else [((), publishing.pod_resources_age)]
    text = "Seconds since the kubelet last reported its pod resources."
    yield from _gauge("fairlead_pod_resources_age_seconds", text, (), age)


def _gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Iterator[MetricFamily]:
    yield from _family(name, "gauge", text, labels, rows)


def _counter(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Iterator[MetricFamily]:
    yield from _family(name, "counter", text, labels, rows)


def _family(
    name: str, kind: str, text: str, labels: Sequence[str], rows: Iterable[Row]
) -> Iterator[MetricFamily]:
    """Fill a family, the first of equal series only: Prometheus refuses a page that has two."""
    series: dict[tuple[str, ...], float] = {}
    for values, value in rows:
        series.setdefault(tuple(printable(label)[:_LABEL_LIMIT] for label in values), float(value))
    if series:
        yield MetricFamily(name, kind, text, labels, series)


def _id_labels(acc: Accelerator) -> tuple[str, str]:
    return acc.id, acc.model or ""


def _info_labels(acc: Accelerator) -> tuple[str, ...]:
    more = (acc.driver or "", acc.driver_version or "", acc.uuid or "", acc.node or "")
    return (*_id_labels(acc), acc.name, acc.vendor, acc.kind, acc.bus, *more)


def _unified(acc: Accelerator) -> str:
    return "true" if acc.unified_memory else "false"


def _details(label: str, acc: Accelerator, item: Sample) -> tuple[str, ...]:
    if not label:
        return ()
    return (_unified(acc),) if label == "unified" else (item.detail,)


def _dcgm_labels(index: int, acc: Accelerator, node: str) -> tuple[str, ...]:
    bus, _, address = acc.bus.partition(":")
    place = f"{address.partition(':')[0]:0>8}:{address.partition(':')[2]}".upper() if bus == "pci" else ""
    return (
        str(index),
        acc.uuid or acc.id,
        place,
        basename(acc.node or "") or acc.id,
        acc.product or acc.name,
        node,
    )
