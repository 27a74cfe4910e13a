"""A cluster as it was seen: all that checks look at, as of about one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from fairlead.cluster.meta import ObjectPart
from fairlead.cluster.objects import Lease
from fairlead.cluster.times import parse_time
from fairlead.compat.times import UTC
from fairlead.keys import LEADS_FOR
from fairlead.manifest.types import kubernetes, live
from fairlead.manifest.types.dra import Slice
from fairlead.manifest.types.kubernetes import Node, PriorityClass
from fairlead.manifest.types.live import LiveClaim
from fairlead.offer import DRIVER

COMPONENT: Final = "app.kubernetes.io/component"
NAME: Final = "app.kubernetes.io/name"
VERSION: Final = "app.kubernetes.io/version"
OURS: Final = "fairlead"
PROGRAMS: Final = ("agent", "scheduler", "extender", "admission")
"""Components that keep running, in the order in which their rights are asked for."""
GRACE_SECONDS: Final = 60.0
"""Seconds that things may take to come right by themselves."""


class ContainerStateWaiting(ObjectPart, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class ContainerStateTerminated(ObjectPart, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str = ""


class ContainerState(ObjectPart, frozen=True):
    """What a container does now, or did before it was restarted."""

    waiting: ContainerStateWaiting = ContainerStateWaiting()
    terminated: ContainerStateTerminated = ContainerStateTerminated()


class ContainerStatus(ObjectPart, frozen=True):
    """How a container is doing."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(kubernetes.PodStatus, frozen=True):
    """How a pod and its containers are doing."""

    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class PodSpec(kubernetes.PodSpec, frozen=True):
    """What a pod asks for, and as whom it runs."""

    service_account_name: str = ""


class Pod(live.LivePod, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Something that an account must be allowed."""

    account: str
    """`namespace/name` of a service account."""
    verb: str
    resource: str
    """As roles say it, with its group: `resourceclaims/status.resource.k8s.io`."""
    namespace: str = ""
    """Empty: in all."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What was seen."""

    version: tuple[int, int] = (0, 0)
    """Of the API server."""
    user: str = ""
    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    """By the server's clock."""
    ahead: float = 0.0
    """Seconds by which our clock is ahead of the server's."""
    scheduler: str = OURS
    """The `schedulerName` that is asked about."""
    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    slices: Sequence[Slice] = ()
    claims: Sequence[LiveClaim] = ()
    leases: Sequence[Lease] = ()
    priorities: Sequence[PriorityClass] = ()
    missing: frozenset[str] = frozenset()
    """Kinds, by plural, that the server does not have."""
    blind: Mapping[str, str] = field(default_factory=dict)
    """Kinds, by plural, that we could not look at, and why."""
    lacking: Sequence[AccessRule] = ()
    """Rights that accounts of ours do not have."""
    earlier: "ClusterView | None" = None
    """The same cluster some seconds before. No two lists are of one moment; what is in both looks stayed."""

    def component(self, name: str) -> list[Pod]:
        """Return the pods of one of our programs that run or are about to."""
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
        """The leases by which replicas of the scheduler in question agree who leads."""
        return [
            each
            for each in self.leases
            if each.metadata.annotations.get(LEADS_FOR, self.scheduler) == self.scheduler
        ]

    def age(self, time: str) -> float:
        """Return the seconds since a time of the API; 0 where there is none."""
        return (self.now - parse_time(time)).total_seconds() if time else 0.0

    def is_held(self, lease: Lease) -> bool:
        """Say whether somebody holds a lease and has renewed it in time."""
        spec = lease.spec
        return bool(spec.holder_identity) and self.age(spec.renew_time) <= spec.lease_duration_seconds

    @property
    def has_leader(self) -> bool:
        """Whether some replica of the scheduler leads."""
        return any(self.is_held(each) for each in self.own_leases)


def is_ready(pod: Pod) -> bool:
    """Say whether a pod is ready."""
    return pod.condition("Ready").status == "True"


def full_name(pod: Pod) -> str:
    """Return a pod's name with its namespace."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
