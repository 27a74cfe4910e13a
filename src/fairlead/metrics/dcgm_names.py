"""GPUs under the names that NVIDIA's dcgm-exporter gives to its metrics, up to 4.8 and since 4.9.

As there, the series of a GPU that one container holds or uses carry its namespace, pod and container, and
used memory and utilisation of a shared GPU are one series for each container, with what it uses itself.
"""

from collections.abc import Iterator
from os.path import basename
from typing import Final

from fairlead import dcgm
from fairlead.inventory import Accelerator
from fairlead.metrics.exposition import MetricFamily, Row, family
from fairlead.metrics.snapshot import MetricsSnapshot
from fairlead.offer import Form
from fairlead.telemetry import Metric, Sample

_FIELDS: Final = (  # DCGM's old name, metric, detail (None: the first there is)
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
_LABELS: Final = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname")
_NEW_LABELS: Final = tuple(dcgm.LABELS.get(label, label) for label in _LABELS)
_INSTANCE_LABELS: Final = ("GPU_I_PROFILE", "GPU_I_ID")
"""Of a MIG instance; its other labels are those of its GPU, as dcgm-exporter has them."""
_POD_LABELS: Final = ("namespace", "pod", "container")
_OPTIONAL: Final = frozenset((*_INSTANCE_LABELS, *_POD_LABELS))
_BY_CONTAINER: Final = {Metric.MEMORY_USED, Metric.BUSY}
"""What is measured for each container of a shared GPU."""
PodLabels = tuple[str, str, str]
"""A namespace, a pod, and a container."""
_NO_POD: Final = ("", "", "")


def dcgm_metrics(snapshot: MetricsSnapshot) -> Iterator[MetricFamily]:
    """Yield the GPUs' samples under DCGM's names, old and new."""
    labels = _labels_by_id(snapshot)
    holders = _holders(snapshot)
    for name, metric, detail in _FIELDS:
        field = dcgm.FIELDS[f"DCGM_FI_DEV_{name}"]
        rows: dict[str, list[Row]] = {}
        for item in snapshot.samples:
            if item.metric is metric and item.accelerator in labels and detail in (None, item.detail):
                for pod, value in _values(snapshot, item, holders.get(item.accelerator, ())):
                    for exposed, scaled in dcgm.write(field, value, snapshot.dcgm_names):
                        rows.setdefault(exposed, []).append(
                            ((*labels[item.accelerator], *pod), round(scaled, 6))
                        )
        for exposed, mine in rows.items():
            old = exposed == field.old and snapshot.dcgm_names is not dcgm.Names.NEW
            keys = (*(_LABELS if old else _NEW_LABELS), *_INSTANCE_LABELS, *_POD_LABELS)
            yield from family(exposed, field.kind, field.help(exposed), keys, mine, _OPTIONAL)


def _labels_by_id(snapshot: MetricsSnapshot) -> dict[str, tuple[str, ...]]:
    """Return the labels of every GPU and MIG instance."""
    gpus = [acc for acc in snapshot.inventory.accelerators if acc.kind == "gpu"]
    whole = [acc for acc in gpus if acc.mig is None]
    whole.sort(key=lambda acc: acc.vendor != "NVIDIA")  # NVIDIA's keep their numbers if there are others
    labels = {acc.id: _gpu_labels(index, acc, snapshot.node) for index, acc in enumerate(whole)}
    instances = {
        acc.id: (*labels[acc.mig.parent], acc.mig.profile, str(acc.mig.gpu_instance))
        for acc in gpus
        if acc.mig and acc.mig.parent in labels
    }
    return {**{name: (*values, "", "") for name, values in labels.items()}, **instances}


def _holders(snapshot: MetricsSnapshot) -> dict[str, tuple[PodLabels, ...]]:
    """Return the containers that hold or use each accelerator."""
    held: dict[str, set[PodLabels]] = {}
    for holding in snapshot.publishing.holdings if snapshot.publishing else ():
        if holding.form is not Form.CLAIM:
            pod = (holding.holder.namespace, holding.holder.name, holding.holder.container)
            held.setdefault(holding.accelerator, set()).add(pod)
    for each in snapshot.use.containers if snapshot.use else ():
        if each.pod:
            held.setdefault(each.accelerator, set()).add((each.namespace, each.pod, each.container))
    return {accelerator: tuple(sorted(pods)) for accelerator, pods in held.items()}


def _values(
    snapshot: MetricsSnapshot, item: Sample, holders: tuple[PodLabels, ...]
) -> Iterator[tuple[PodLabels, float]]:
    """Yield a sample's values: that of the device, or those of the containers that share it."""
    if len(holders) == 1:
        yield holders[0], item.value
        return
    mine = [] if snapshot.use is None or item.metric not in _BY_CONTAINER else snapshot.use.containers
    shares = [
        (each, each.memory if item.metric is Metric.MEMORY_USED else each.busy)
        for each in mine
        if each.accelerator == item.accelerator and each.pod
    ]
    measured = [
        ((each.namespace, each.pod, each.container), float(value))
        for each, value in shares
        if value is not None
    ]
    yield from measured or [(_NO_POD, item.value)]


def _gpu_labels(index: int, acc: Accelerator, node: str) -> tuple[str, ...]:
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
