"""The values of a metrics page."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead import dcgm
from fairlead.inventory import Inventory
from fairlead.offer import Holding
from fairlead.telemetry import Sample
from fairlead.use import AttributedUse


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
    use: AttributedUse | None = None
    """The use by pod; None where it is not read."""
