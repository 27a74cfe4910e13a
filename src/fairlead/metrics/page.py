"""An inventory and its latest samples as a page.

`fairlead_*` metrics are in base units. Beside them, every GPU has the names, units and labels that NVIDIA's
dcgm-exporter gives to its own, those up to 4.8 and those since 4.9, so that dashboards made for it work here.
"""

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from fairlead import __version__
from fairlead.inventory import Accelerator, Inventory, State
from fairlead.metrics.dcgm_names import dcgm_metrics
from fairlead.metrics.exposition import MetricFamily, Row, counter, gauge, id_labels
from fairlead.metrics.holdings import holding_metrics, use_metrics
from fairlead.metrics.snapshot import MetricsSnapshot, PublishStatus
from fairlead.telemetry import Metric, Sample

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


def render(snapshot: MetricsSnapshot) -> bytes:
    """Return the page: every metric that has a value."""
    families = (
        *_inventory_metrics(snapshot.inventory),
        *_sample_metrics(snapshot),
        *dcgm_metrics(snapshot),
        *_agent_metrics(snapshot),
        *(holding_metrics(snapshot.inventory, snapshot.publishing) if snapshot.publishing else ()),
        *(use_metrics(snapshot.inventory, snapshot.use) if snapshot.use else ()),
        *(_publish_metrics(snapshot.publishing) if snapshot.publishing else ()),
    )
    return "".join(line for family in families for line in family.lines()).encode()


def _inventory_metrics(inventory: Inventory) -> Iterator[MetricFamily]:
    """Yield the metrics of the inventory."""
    accs = inventory.accelerators
    labels = ("id", "model", "name", "vendor", "kind", "bus", "driver", "driver_version", "uuid", "node")
    facts = ((_info_labels(acc), 1.0) for acc in accs)
    yield from gauge("fairlead_accelerator_info", "What the accelerator is.", labels, facts)
    stated = [acc for acc in accs if not acc.mig_instances]  # the instances of a split GPU stand for it
    states = (
        ((*id_labels(acc), state.value), float(acc.state == state)) for acc in stated for state in State
    )
    text = "Whether the accelerator is in this state."
    yield from gauge("fairlead_accelerator_state", text, ("id", "model", "state"), states)
    confidences = ((id_labels(acc), acc.confidence) for acc in accs)
    text = "Confidence that the accelerator is correctly identified, from 0 to 1."
    yield from gauge("fairlead_accelerator_confidence", text, ("id", "model"), confidences)
    best = ((id_labels(acc), acc.link.best) for acc in accs if acc.link)
    text = "Maximum rate of the link to the host."
    yield from gauge("fairlead_accelerator_link_max_bits_per_second", text, ("id", "model"), best)
    yield from _rates("peak_ops", "Peak operations per second.", ((acc, acc.peak) for acc in stated))
    text = "Operations per second under the present clock cap and link."
    yield from _rates("effective_ops", text, ((acc, acc.effective) for acc in stated))
    unknown = [((), float(len(inventory.unknown)))]
    text = "Devices shaped like an accelerator that the catalog does not know."
    yield from gauge("fairlead_unknown_devices", text, (), unknown)


def _rates(
    name: str, text: str, tables: Iterable[tuple[Accelerator, Mapping[str, float]]]
) -> Iterator[MetricFamily]:
    rows = (
        ((*id_labels(acc), precision), rate) for acc, table in tables for precision, rate in table.items()
    )
    yield from gauge(f"fairlead_accelerator_{name}", text, ("id", "model", "precision"), rows)


def _sample_metrics(snapshot: MetricsSnapshot) -> Iterator[MetricFamily]:
    """Yield the metrics of the samples."""
    accs = {acc.id: acc for acc in snapshot.inventory.accelerators}
    known = [item for item in snapshot.samples if item.accelerator in accs]
    totals = {item.accelerator: item.value for item in known if item.metric is Metric.MEMORY_TOTAL}
    sizes = ((acc, totals.get(acc.id, acc.memory)) for acc in accs.values() if not acc.mig_instances)
    rows: Iterable[Row] = (((*id_labels(acc), _unified(acc)), size) for acc, size in sizes if size)
    text = "Memory that the accelerator can use; where unified, the machine's RAM."
    yield from gauge("fairlead_accelerator_memory_bytes", text, ("id", "model", "unified"), rows)
    for metric, (text, label) in _MEASURED.items():
        mine = [(accs[item.accelerator], item) for item in known if item.metric is metric]
        labels = ("id", "model", label) if label else ("id", "model")
        rows = (((*id_labels(acc), *_details(label, acc, item)), item.value) for acc, item in mine)
        yield from gauge(f"fairlead_accelerator_{metric.value}", text, labels, rows)
    spent = ((id_labels(accs[i.accelerator]), i.value) for i in known if i.metric is Metric.ENERGY)
    text = "Energy consumed since the driver was loaded."
    yield from counter("fairlead_accelerator_energy_joules_total", text, ("id", "model"), spent)
    yield from _total_metrics(accs, known)
    rails = (((i.detail,), i.value) for i in known if i.metric is Metric.RAIL_POWER)
    yield from gauge("fairlead_power_rail_watts", "Power draw of a rail of the board.", ("rail",), rails)


def _total_metrics(accs: Mapping[str, Accelerator], known: Sequence[Sample]) -> Iterator[MetricFamily]:
    """Yield the totals, and one series for each reason for low clocks."""
    for metric, (text, label) in _COUNTED.items():
        mine = [item for item in known if item.metric is metric]
        labels = ("id", "model", label) if label else ("id", "model")
        rows: Iterable[Row] = (
            ((*id_labels(accs[item.accelerator]), *([item.detail] if label else [])), item.value)
            for item in mine
        )
        yield from counter(f"fairlead_accelerator_{metric.value}", text, labels, rows)
    masks = [(accs[i.accelerator], int(i.value)) for i in known if i.metric is Metric.CLOCKS_EVENTS]
    rows = (
        ((*id_labels(acc), reason), float(mask >> bit & 1))
        for acc, mask in masks
        for bit, reason in enumerate(_REASONS)
    )
    text = "Whether the clocks are below their maximum for this reason."
    yield from gauge("fairlead_accelerator_clocks_event", text, ("id", "model", "reason"), rows)


def _agent_metrics(snapshot: MetricsSnapshot) -> Iterator[MetricFamily]:
    """Yield the metrics of the agent itself."""
    version = [((__version__, platform.python_version()), 1.0)]
    text = "The program that serves this page."
    yield from gauge("fairlead_build_info", text, ("version", "python"), version)
    scans = (((trigger,), float(count)) for trigger, count in snapshot.scans.items())
    yield from counter("fairlead_scans_total", "Scans of the whole machine.", ("trigger",), scans)
    lasted: list[Row] = [((), snapshot.scan_seconds)]
    yield from gauge("fairlead_scan_duration_seconds", "Duration of the last scan.", (), lasted)
    ended: list[Row] = [((), snapshot.scanned_at)]
    yield from gauge("fairlead_last_scan_timestamp_seconds", "Time when the last scan ended.", (), ended)


def _publish_metrics(publishing: PublishStatus) -> Iterator[MetricFamily]:
    """Yield the metrics of publishing."""
    rows: Iterable[Row] = (((what,), float(count)) for what, count in publishing.writes.items())
    text = "Writes to the API server, by object; none while nothing changes."
    yield from counter("fairlead_api_writes_total", text, ("object",), rows)
    rows = (((what,), float(count)) for what, count in publishing.errors.items())
    text = "Writes to the API server that failed."
    yield from counter("fairlead_api_errors_total", text, ("object",), rows)
    rows = (((resource,), float(known)) for resource, known in publishing.registered.items())
    text = "Whether the kubelet has accepted the plugin of a resource; `claims` is the DRA plugin."
    yield from gauge("fairlead_plugin_registered", text, ("resource",), rows)
    rows = (((form,), float(count)) for form, count in publishing.refused.items())
    text = "Allocations refused because the accelerator is already held in another form."
    yield from counter("fairlead_allocations_refused_total", text, ("form",), rows)
    age: list[Row] = [] if publishing.pod_resources_age is None else [((), publishing.pod_resources_age)]
    text = "Seconds since the kubelet last reported its pod resources."
    yield from gauge("fairlead_pod_resources_age_seconds", text, (), age)


def _info_labels(acc: Accelerator) -> tuple[str, ...]:
    more = (acc.driver or "", acc.driver_version or "", acc.uuid or "", acc.node or "")
    return (*id_labels(acc), acc.name, acc.vendor, acc.kind, acc.bus, *more)


def _unified(acc: Accelerator) -> str:
    return "true" if acc.unified_memory else "false"


def _details(label: str, acc: Accelerator, item: Sample) -> tuple[str, ...]:
    if not label:
        return ()
    return (_unified(acc),) if label == "unified" else (item.detail,)
