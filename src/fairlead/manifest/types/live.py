"""Pods and claims of a live cluster, with the state of their scheduling."""

from collections.abc import Container
from typing import Final, NamedTuple

from fairlead.cluster.meta import ObjectPart, field
from fairlead.cluster.objects import AllocatedDevice, Condition
from fairlead.formats import WORDS, Codec, VersionedFormat
from fairlead.keys import LEADER_EPOCH
from fairlead.manifest.types import dra, kubernetes

SCHEDULED: Final = "PodScheduled"
DISRUPTION: Final = "DisruptionTarget"
"""A condition of a pod that is about to be evicted."""
PREEMPTED: Final = "PreemptionByScheduler"
"""The reason of that condition where a scheduler evicts the pod for a pod of higher priority."""
PREEMPTING: Final = "fairlead-scheduler: preempting to accommodate "
"""The start of that condition's message where the scheduler is ours; the preemptor follows."""
FULL: Final = "AcceleratorMemory"
"""The reason of that condition where the pod leaves an accelerator whose memory is nearly full."""
EVICTING: Final = "fairlead-scheduler: "
"""The start of that condition's message, whatever the reason."""
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that a scheduler created for a pod's extended resources."""
_ENDED: Final = ("Succeeded", "Failed")


class LeaderMark(NamedTuple):
    """A fence: the epoch of the leader that changed an object, and a text that no other write bears."""

    epoch: int
    nonce: str


def _decode_mark(body: str) -> LeaderMark:
    number, _, nonce = body.partition(" ")
    if not number.isdecimal() or len(number) > 9:
        raise ValueError(f"{number!r} is not an epoch")
    return LeaderMark(int(number), nonce)


LEADER_EPOCHS: Final[VersionedFormat[LeaderMark]] = VersionedFormat(
    "leader-epoch", WORDS, {1: Codec(lambda mark: f"{mark.epoch} {mark.nonce}".rstrip(), _decode_mark)}
)
"""The condition of a pod, and the annotation of a claim, that a leader fences with."""


class EndedContainer(ObjectPart, frozen=True):
    """How a container ended."""

    reason: str = ""
    exit_code: int = 0
    message: str = ""


class LiveContainerState(ObjectPart, frozen=True):
    """The state of a container; empty while it runs."""

    terminated: EndedContainer | None = None


class LiveContainerStatus(kubernetes.ContainerImageStatus, frozen=True):
    """The status of a container, with how often it was started again and how it ended last."""

    restart_count: int = 0
    state: LiveContainerState = LiveContainerState()
    last_state: LiveContainerState = LiveContainerState()


class LivePodStatus(kubernetes.PodStatus, frozen=True):
    """The status of a pod, with its containers."""

    container_statuses: tuple[LiveContainerStatus, ...] = ()
    pod_ip: str = field(default="", name="podIP")


class LivePod(kubernetes.Pod, frozen=True):
    """A pod, with its state in the scheduler."""

    status: LivePodStatus = LivePodStatus()

    @property
    def ended(self) -> bool:
        """Whether the pod has ended and holds nothing any more."""
        return self.status.phase in _ENDED

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that fenced it last; 0: none had to, or no leader wrote the mark."""
        mark = self.condition(LEADER_EPOCH).message
        if not mark:
            return 0
        try:
            return LEADER_EPOCHS.decode(mark).epoch
        except ValueError:
            return 0

    @property
    def is_victim(self) -> bool:
        """Whether our scheduler has announced the pod's eviction, and the pod is not being deleted yet."""
        disruption = self.condition(DISRUPTION)
        ours = disruption.reason in (PREEMPTED, FULL) and disruption.message.startswith(EVICTING)
        return ours and disruption.status == "True" and not self.metadata.deletion_timestamp

    def condition(self, name: str) -> Condition:
        """Return a condition; an empty one where the pod has none."""
        return next(
            (condition for condition in self.status.conditions if condition.type == name), Condition()
        )

    def waits_for(self, scheduler: str | None) -> bool:
        """Return whether this scheduler must schedule the pod now; None: any scheduler."""
        unbound = scheduler in (None, self.spec.scheduler_name) and not self.spec.node_name
        return unbound and not (self.ended or self.metadata.deletion_timestamp or self.spec.scheduling_gates)


class LiveClaim(dra.ResourceClaim, frozen=True):
    """A claim, with its allocation and its pods."""

    @property
    def results(self) -> tuple[AllocatedDevice, ...]:
        """The devices that are allocated to the claim."""
        return self.status.allocation.devices.results if self.status.allocation else ()

    @property
    def users(self) -> tuple[str, ...]:
        """The uids of the pods that the claim is reserved for, or was created for."""
        reserved = tuple(consumer.uid for consumer in self.status.reserved_for if consumer.resource == "pods")
        return reserved or tuple(owner.uid for owner in self.metadata.owner_references if owner.kind == "Pod")

    def is_orphaned(self, pods: Container[str]) -> bool:
        """Return whether the claim is reserved for pods of which none is among these, by uid."""
        return bool(self.users) and not any(uid in pods for uid in self.users)

    @property
    def made_by_scheduler(self) -> bool:
        """Whether its annotation says that a scheduler created it for a pod's extended resources."""
        return self.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true"

    def made_for(self, uid: str) -> bool:
        """Return whether a scheduler created it for this pod alone; the annotation alone can be forged."""
        owners = {owner.uid for owner in self.metadata.owner_references if owner.kind == "Pod"}
        return (
            self.made_by_scheduler
            and owners == {uid}
            and all(consumer.uid == uid for consumer in self.status.reserved_for)
        )
