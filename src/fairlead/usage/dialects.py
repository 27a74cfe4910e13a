"""The names under which exporters publish measured use: ours, and dcgm-exporter's, new and old. A table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead import dcgm
from fairlead.compat import StrEnum


class UseScope(StrEnum):
    """What a series is about."""

    DEVICE = "device"
    POD = "pod"
    FOREIGN = "foreign"
    """A device: the memory that processes outside pods hold."""
    HOLDER = "holder"
    """A device, with the pod that holds it; all of the use is the pod's only if no other pod is named."""


class UseQuantity(StrEnum):
    """What a series measures."""

    MEMORY = "memory"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class DialectMetric:
    """One metric of a dialect."""

    name: str
    scope: UseScope
    quantity: UseQuantity
    factor: float = 1.0
    """Bytes, or the share of time, for each 1 of its value."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The metrics of one exporter; the first is always there if any is."""

    name: str
    metrics: tuple[DialectMetric, ...]


def _dcgm(name: str, *, new: bool) -> Dialect:
    fields = (("FB_USED", UseQuantity.MEMORY), ("GPU_UTIL", UseQuantity.BUSY))
    rows = []
    for suffix, quantity in fields:
        field = dcgm.FIELDS[f"DCGM_FI_DEV_{suffix}"]
        factor = 1.0 if new else 1.0 / field.scale
        rows.append(DialectMetric(field.new if new else field.old, UseScope.HOLDER, quantity, factor))
    return Dialect(name, tuple(rows))


OURS: Final = Dialect(
    "fairlead",
    (
        DialectMetric("fairlead_accelerator_memory_used_bytes", UseScope.DEVICE, UseQuantity.MEMORY),
        DialectMetric("fairlead_accelerator_busy_ratio", UseScope.DEVICE, UseQuantity.BUSY),
        DialectMetric("fairlead_pod_accelerator_memory_used_bytes", UseScope.POD, UseQuantity.MEMORY),
        DialectMetric("fairlead_pod_accelerator_busy_ratio", UseScope.POD, UseQuantity.BUSY),
        DialectMetric("fairlead_accelerator_foreign_bytes", UseScope.FOREIGN, UseQuantity.MEMORY),
    ),
)
DIALECTS: Final = (OURS, _dcgm("dcgm-exporter 4.9", new=True), _dcgm("dcgm-exporter", new=False))
"""In the order in which a cluster that has several is read: only ours divides a device among its pods."""
METRICS: Final[Mapping[str, DialectMetric]] = {metric.name: metric for metric in OURS.metrics}
"""The metrics of an agent's page, by name."""
