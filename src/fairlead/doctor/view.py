"""A view of a cluster: all that the checks read, as of about one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from fairlead.cluster.meta import ObjectPart
from fairlead.cluster.meta import field as renamed
from fairlead.cluster.objects import Lease
from fairlead.cluster.times import parse_time
from fairlead.compat.times import UTC
from fairlead.keys import LEADS_FOR
from fairlead.manifest.types import kubernetes, live
from fairlead.manifest.types.dra import Slice
from fairlead.manifest.types.kubernetes import Node, PriorityClass
from fairlead.manifest.types.live import LiveClaim
from fairlead.offer import DRIVER
from fairlead.usage.status import UseStatus

COMPONENT: Final = "app.kubernetes.io/component"
NAME: Final = "app.kubernetes.io/name"
VERSION: Final = "app.kubernetes.io/version"
OURS: Final = "fairlead"
PROGRAMS: Final = ("agent", "scheduler", "extender", "admission")
"""Long-running components, in the order in which their rights are checked."""
GRACE_SECONDS: Final = 60.0
"""Seconds that a state may last before a check reports it: most pass by themselves."""


class ContainerStateWaiting(ObjectPart, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateTerminated(live.EndedContainer, frozen=True):
    """How a container ended."""

    message: str = ""
    finished_at: str = ""


class ContainerState(live.LiveContainerState, frozen=True):
    """The state of a container now, or before its last restart."""

    waiting: ContainerStateWaiting = ContainerStateWaiting()
    terminated: ContainerStateTerminated = ContainerStateTerminated()


class ContainerStatus(live.LiveContainerStatus, frozen=True):
    """The status of a container."""

    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(live.LivePodStatus, frozen=True):
    """The status of a pod and its containers."""

    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ip: str = renamed(default="", name="podIP")
    host_ip: str = renamed(default="", name="hostIP")


class PodSpec(kubernetes.PodSpec, frozen=True):
    """The requests of a pod, and its service account."""

    service_account_name: str = ""


class Pod(live.LivePod, frozen=True):
    """A pod with the status of its containers."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A right that an account needs."""

    account: str
    """`namespace/name` of a service account."""
    verb: str
    resource: str
    """As roles name it, with its group: `resourceclaims/status.resource.k8s.io`."""
    namespace: str = ""
    """Empty: all namespaces."""


@dataclass(frozen=True, slots=True)
class TelemetryReading:
    """One read of measured use from a Prometheus."""

    url: str
    status: UseStatus
    dialect: str = ""
    """The exporter by whose names it was read."""
    devices: int = 0
    """The accelerators of the cluster."""
    unknown: int = 0
    """Series of none of them."""
    example: str = ""
    """The labels of one of these series."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The objects of a cluster, and what could not be read."""

    version: tuple[int, int] = (0, 0)
    """The API server's version."""
    user: str = ""
    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    """The time by the server's clock."""
    ahead: float = 0.0
    """Seconds by which this machine's clock is ahead of the server's."""
    scheduler: str = OURS
    """The `schedulerName` that the checks are about."""
    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    slices: Sequence[Slice] = ()
    claims: Sequence[LiveClaim] = ()
    leases: Sequence[Lease] = ()
    priorities: Sequence[PriorityClass] = ()
    missing: frozenset[str] = frozenset()
    """Kinds, by plural, that the server does not serve."""
    forbidden: Mapping[str, str] = field(default_factory=dict)
    """Kinds, by plural, that we may not list, and the server's reason."""
    missing_rights: Sequence[AccessRule] = ()
    """Rights that our accounts need and lack."""
    telemetry: TelemetryReading | None = None
    """Measured use, if a Prometheus was named."""
    earlier: "ClusterView | None" = None
    """The same cluster some seconds before. No two lists are of one moment; what both views show lasted."""

    def component(self, name: str) -> list[Pod]:
        """Return the pods of one of our programs that run or are about to run."""
        return [
            pod
            for pod in self.pods
            if pod.metadata.labels.get(NAME) == OURS
            and pod.metadata.labels.get(COMPONENT) == name
            and not pod.ended
            and not pod.metadata.deletion_timestamp
        ]

    @property
    def own_slices(self) -> list[Slice]:
        """The slices of our driver."""
        return [slice_ for slice_ in self.slices if slice_.spec.driver == DRIVER]

    @property
    def own_leases(self) -> list[Lease]:
        """The leases by which the replicas of this scheduler elect their leader."""
        return [
            lease
            for lease in self.leases
            if lease.metadata.annotations.get(LEADS_FOR, self.scheduler) == self.scheduler
        ]

    def age(self, time: str) -> float:
        """Return the seconds since a timestamp of the API; 0 where it is empty."""
        return (self.now - parse_time(time)).total_seconds() if time else 0.0

    def is_held(self, lease: Lease) -> bool:
        """Return whether a lease has a holder that renewed it in time."""
        spec = lease.spec
        return bool(spec.holder_identity) and self.age(spec.renew_time) <= spec.lease_duration_seconds

    @property
    def has_leader(self) -> bool:
        """Whether a replica of the scheduler leads."""
        return any(self.is_held(lease) for lease in self.own_leases)


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is ready."""
    return pod.condition("Ready").status == "True"


def full_name(pod: Pod) -> str:
    """Return a pod's name with its namespace."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
