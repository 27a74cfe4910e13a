"""An inventory and its latest samples as a page in Prometheus' text format.

`fairlead_*` metrics are in base units. Beside them, every GPU has the names, units and labels that NVIDIA's
dcgm-exporter gives to its own, so that boards made for that exporter work here too.
"""

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import basename
from typing import Final

from fairlead import __version__
from fairlead.host import printable
from fairlead.inventory import Accelerator, Inventory, State
from fairlead.offer import Form, Holding
from fairlead.telemetry import Metric, Sample

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LABEL_LIMIT: Final = 200
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
Row = tuple[Sequence[str], float]
"""The label values of a series, and its value."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, what it means, and its series."""

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


@dataclass(frozen=True, slots=True)
class Publishing:
    """What the agent published, and who holds what."""

    writes: Mapping[str, int] = field(default_factory=dict)
    """Writes to the API server, by what was written."""
    errors: Mapping[str, int] = field(default_factory=dict)
    registered: Mapping[str, bool] = field(default_factory=dict)
    """Whether the kubelet has accepted a plugin, by resource."""
    holdings: tuple[Holding, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    """Allocations that were refused, by form."""
    books_age: float | None = None
    """Seconds since the kubelet's books were read."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a metrics page tells."""

    inventory: Inventory
    samples: tuple[Sample, ...] = ()
    node: str = ""
    """The machine's name, for the DCGM-compatible metrics; empty leaves it out."""
    scans: Mapping[str, int] = field(default_factory=dict)
    """How many scans there were, by what triggered them."""
    scan_seconds: float = 0.0
    scanned_at: float = 0.0
    publishing: Publishing | None = None


_MEASURED: Final = {  # metric: help, and the label that tells several of them apart
    Metric.MEMORY_USED: ("Memory in use; where unified, of the whole machine.", "unified"),
    Metric.MEMORY_FREE: ("Memory that can still be had.", "unified"),
    Metric.BUSY: ("Share of time in which the accelerator was busy.", ""),
    Metric.MEMORY_BUSY: ("Share of time in which the accelerator's memory was busy.", ""),
    Metric.POWER: ("Power draw; on a Jetson, of the rails that feed the GPU.", ""),
    Metric.TEMPERATURE: ("Temperature of a sensor.", "sensor"),
    Metric.TEMPERATURE_LIMIT: ("Temperature at which the accelerator slows down or stops.", "sensor"),
    Metric.CLOCK: ("Clock frequency.", "clock"),
    Metric.CLOCK_MIN: ("Lowest clock frequency that is allowed now.", "clock"),
    Metric.CLOCK_MAX: ("Highest clock frequency that is allowed now.", "clock"),
    Metric.LINK: ("Rate of the link to the host, as negotiated.", ""),
}
_DCGM: Final = (  # name, help, metric, detail (None: the first there is), factor to DCGM's unit
    ("SM_CLOCK", "SM clock frequency (in MHz).", Metric.CLOCK, "core", 1e-6),
    ("MEM_CLOCK", "Memory clock frequency (in MHz).", Metric.CLOCK, "memory", 1e-6),
    ("GPU_TEMP", "GPU temperature (in C).", Metric.TEMPERATURE, None, 1),
    ("POWER_USAGE", "Power draw (in W).", Metric.POWER, None, 1),
    ("TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).", Metric.ENERGY, None, 1e3),
    ("GPU_UTIL", "GPU utilization (in %).", Metric.BUSY, None, 100),
    ("MEM_COPY_UTIL", "Memory utilization (in %).", Metric.MEMORY_BUSY, None, 100),
    ("FB_TOTAL", "Total framebuffer memory (in MiB).", Metric.MEMORY_TOTAL, None, 2**-20),
    ("FB_FREE", "Framebuffer memory free (in MiB).", Metric.MEMORY_FREE, None, 2**-20),
    ("FB_USED", "Framebuffer memory used (in MiB).", Metric.MEMORY_USED, None, 2**-20),
)
_DCGM_LABELS: Final = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname")


def render(snapshot: Snapshot) -> bytes:
    """Return the page: every metric that has a value."""
    families = (
        *_described(snapshot.inventory),
        *_measured(snapshot),
        *_dcgm(snapshot),
        *_own(snapshot),
        *(_held(snapshot.inventory, snapshot.publishing) if snapshot.publishing else ()),
        *(_published(snapshot.publishing) if snapshot.publishing else ()),
    )
    return "".join(line for family in families for line in family.lines()).encode()


def _described(inventory: Inventory) -> Iterator[Family]:
    """Yield what the inventory says."""
    accs = inventory.accelerators
    labels = ("id", "model", "name", "vendor", "kind", "bus", "driver", "driver_version", "uuid", "node")
    facts = ((_facts(acc), 1.0) for acc in accs)
    yield from _gauge("fairlead_accelerator_info", "What the accelerator is.", labels, facts)
    states = (((*_who(acc), state.value), float(acc.state == state)) for acc in accs for state in State)
    text = "Whether the accelerator is in this state."
    yield from _gauge("fairlead_accelerator_state", text, ("id", "model", "state"), states)
    sure = ((_who(acc), acc.confidence) for acc in accs)
    text = "How sure it is that the accelerator is what it is taken for."
    yield from _gauge("fairlead_accelerator_confidence", text, ("id", "model"), sure)
    best = ((_who(acc), acc.link.best) for acc in accs if acc.link)
    text = "Best rate of the link to the host."
    yield from _gauge("fairlead_accelerator_link_max_bits_per_second", text, ("id", "model"), best)
    yield from _rates("peak_ops", "Operations per second at best.", ((acc, acc.peak) for acc in accs))
    text = "Operations per second under the clock cap and the link that it has now."
    yield from _rates("effective_ops", text, ((acc, acc.effective) for acc in accs))
    odd = [((), float(len(inventory.unknown)))]
    text = "Devices shaped like an accelerator that the catalog does not know."
    yield from _gauge("fairlead_unknown_devices", text, (), odd)


def _rates(
    name: str, text: str, tables: Iterable[tuple[Accelerator, Mapping[str, float]]]
) -> Iterator[Family]:
    rows = (((*_who(acc), precision), rate) for acc, table in tables for precision, rate in table.items())
    yield from _gauge(f"fairlead_accelerator_{name}", text, ("id", "model", "precision"), rows)


def _measured(snapshot: Snapshot) -> Iterator[Family]:
    """Yield what was measured."""
    accs = {acc.id: acc for acc in snapshot.inventory.accelerators}
    known = [item for item in snapshot.samples if item.accelerator in accs]
    totals = {item.accelerator: item.value for item in known if item.metric is Metric.MEMORY_TOTAL}
    sizes = ((acc, totals.get(acc.id, acc.memory)) for acc in accs.values())
    rows: Iterable[Row] = (((*_who(acc), _unified(acc)), size) for acc, size in sizes if size)
    text = "Memory that the accelerator can use; where unified, the machine's RAM."
    yield from _gauge("fairlead_accelerator_memory_bytes", text, ("id", "model", "unified"), rows)
    for metric, (text, label) in _MEASURED.items():
        mine = [(accs[item.accelerator], item) for item in known if item.metric is metric]
        labels = ("id", "model", label) if label else ("id", "model")
        rows = (((*_who(acc), *_details(label, acc, item)), item.value) for acc, item in mine)
        yield from _gauge(f"fairlead_accelerator_{metric.value}", text, labels, rows)
    spent = ((_who(accs[i.accelerator]), i.value) for i in known if i.metric is Metric.ENERGY)
    text = "Energy spent since the driver was loaded."
    yield from _counter("fairlead_accelerator_energy_joules_total", text, ("id", "model"), spent)
    rails = (((i.detail,), i.value) for i in known if i.metric is Metric.RAIL_POWER)
    yield from _gauge("fairlead_power_rail_watts", "Power draw of a rail of the board.", ("rail",), rails)


def _dcgm(snapshot: Snapshot) -> Iterator[Family]:
    """Yield the GPUs' samples under DCGM's names."""
    gpus = [acc for acc in snapshot.inventory.accelerators if acc.kind == "gpu"]
    gpus.sort(key=lambda acc: acc.vendor != "NVIDIA")  # NVIDIA's keep the numbers they have without others
    labels = {acc.id: _dcgm_labels(index, acc, snapshot.node) for index, acc in enumerate(gpus)}
    for name, text, metric, detail, factor in _DCGM:
        rows = [
            (labels[item.accelerator], round(item.value * factor, 6))
            for item in snapshot.samples
            if item.metric is metric and item.accelerator in labels and detail in (None, item.detail)
        ]
        kind = _counter if metric is Metric.ENERGY else _gauge
        yield from kind(f"DCGM_FI_DEV_{name}", text, _DCGM_LABELS, rows)


def _own(snapshot: Snapshot) -> Iterator[Family]:
    """Yield what the agent tells of itself."""
    version = [((__version__, platform.python_version()), 1.0)]
    text = "The program that serves this page."
    yield from _gauge("fairlead_build_info", text, ("version", "python"), version)
    scans = (((trigger,), float(count)) for trigger, count in snapshot.scans.items())
    yield from _counter("fairlead_scans_total", "Scans of the whole machine.", ("trigger",), scans)
    lasted: list[Row] = [((), snapshot.scan_seconds)]
    yield from _gauge("fairlead_scan_duration_seconds", "How long the last scan took.", (), lasted)
    ended: list[Row] = [((), snapshot.scanned_at)]
    yield from _gauge("fairlead_last_scan_timestamp_seconds", "When the last scan ended.", (), ended)


def _held(inventory: Inventory, publishing: Publishing) -> Iterator[Family]:
    """Yield who holds what; a whole accelerator counts with all of its memory."""
    accs = {acc.id: acc for acc in inventory.accelerators}
    held = [(accs[each.accelerator], each) for each in publishing.holdings if each.accelerator in accs]
    sums: dict[tuple[str, ...], float] = {}
    counts: dict[tuple[str, ...], float] = {}
    for acc, each in held:
        key = (*_who(acc), each.form.value)
        sums[key] = sums.get(key, 0.0) + _amount(acc, each)
        counts[key] = counts.get(key, 0.0) + 1
    labels: Sequence[str] = ("id", "model", "form")
    text = "Memory of the accelerator that containers and claims hold; all of it where it is held whole."
    yield from _gauge("fairlead_accelerator_allocated_bytes", text, labels, sums.items())
    text = "Containers and claims that hold the accelerator or a part of it."
    yield from _gauge("fairlead_accelerator_allocations", text, labels, counts.items())
    rows = (
        (
            (each.holder.namespace, each.holder.name, each.holder.container, *_who(acc), each.form.value),
            _amount(acc, each),
        )
        for acc, each in held
        if each.form is not Form.CLAIM
    )
    text = "Memory of an accelerator that a container holds."
    labels = ("namespace", "pod", "container", "id", "model", "form")
    yield from _gauge("fairlead_pod_accelerator_bytes", text, labels, rows)


def _amount(acc: Accelerator, holding: Holding) -> float:
    return float(holding.mebibytes << 20) if holding.mebibytes else float(acc.memory or 0)


def _published(publishing: Publishing) -> Iterator[Family]:
    """Yield how publishing goes."""
    rows: Iterable[Row] = (((what,), float(count)) for what, count in publishing.writes.items())
    text = "Writes to the API server, by what was written; none while nothing changes."
    yield from _counter("fairlead_api_writes_total", text, ("object",), rows)
    rows = (((what,), float(count)) for what, count in publishing.errors.items())
    text = "Writes to the API server that failed."
    yield from _counter("fairlead_api_errors_total", text, ("object",), rows)
    rows = (((resource,), float(known)) for resource, known in publishing.registered.items())
    text = "Whether the kubelet has accepted the plugin of a resource; `claims` is the one for DRA."
    yield from _gauge("fairlead_plugin_registered", text, ("resource",), rows)
    rows = (((form,), float(count)) for form, count in publishing.refused.items())
    text = "Allocations that were refused because the accelerator is held otherwise."
    yield from _counter("fairlead_allocations_refused_total", text, ("form",), rows)
    age: list[Row] = [] if publishing.books_age is None else [((), publishing.books_age)]
    text = "Seconds since the kubelet last said who holds what."
    yield from _gauge("fairlead_books_age_seconds", text, (), age)


def _gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Iterator[Family]:
    yield from _filled(name, "gauge", text, labels, rows)


def _counter(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Iterator[Family]:
    yield from _filled(name, "counter", text, labels, rows)


def _filled(name: str, kind: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Iterator[Family]:
    """Fill a family, the first of equal series only: Prometheus refuses a page that has two."""
    series: dict[tuple[str, ...], float] = {}
    for values, value in rows:
        series.setdefault(tuple(printable(label)[:_LABEL_LIMIT] for label in values), float(value))
    if series:
        yield Family(name, kind, text, labels, series)


def _who(acc: Accelerator) -> tuple[str, str]:
    return acc.id, acc.model or ""


def _facts(acc: Accelerator) -> tuple[str, ...]:
    more = (acc.driver or "", acc.driver_version or "", acc.uuid or "", acc.node or "")
    return (*_who(acc), acc.name, acc.vendor, acc.kind, acc.bus, *more)


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
