"""Pods and claims as a live cluster has them: with what says how far their placing has come."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from fairlead.cluster.objects import AllocatedDevice, Condition
from fairlead.formats import WORDS, Codec, VersionedFormat
from fairlead.keys import LEADER_EPOCH
from fairlead.manifest.types import dra, kubernetes

SCHEDULED: Final = "PodScheduled"
DISRUPTION: Final = "DisruptionTarget"
"""A condition of a pod that is about to be evicted."""
PREEMPTED: Final = "PreemptionByScheduler"
"""Its reason where a scheduler evicts the pod for one of higher priority."""
PREEMPTING: Final = "fairlead-scheduler: preempting to accommodate "
"""How its message begins where that scheduler is ours; the preemptor follows."""
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""An annotation of a claim that a scheduler made for a pod that asks by extended resource."""
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class LeaderMark:
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


class LivePod(kubernetes.Pod, frozen=True):
    """A pod."""

    @property
    def ended(self) -> bool:
        """Whether it holds nothing any more."""
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
        """Whether a scheduler of ours has said that it evicts the pod, and the eviction is not done."""
        said = self.condition(DISRUPTION)
        ours = (said.status, said.reason) == ("True", PREEMPTED) and said.message.startswith(PREEMPTING)
        return ours and not self.metadata.deletion_timestamp

    def condition(self, name: str) -> Condition:
        """Return a condition; an empty one where there is none."""
        return next(
            (condition for condition in self.status.conditions if condition.type == name), Condition()
        )

    def waits_for(self, scheduler: str | None) -> bool:
        """Return whether it is for this scheduler to find it a place now; None: for any scheduler."""
        mine = scheduler in (None, self.spec.scheduler_name) and not self.spec.node_name
        return mine and not (self.ended or self.metadata.deletion_timestamp or self.spec.scheduling_gates)


class LiveClaim(dra.ResourceClaim, frozen=True):
    """A claim."""

    @property
    def results(self) -> tuple[AllocatedDevice, ...]:
        """The devices that it was given."""
        return self.status.allocation.devices.results if self.status.allocation else ()

    @property
    def users(self) -> tuple[str, ...]:
        """The uids of the pods that it is kept for, or was made for."""
        kept = tuple(each.uid for each in self.status.reserved_for if each.resource == "pods")
        return kept or tuple(
            owner_reference.uid
            for owner_reference in self.metadata.owner_references
            if owner_reference.kind == "Pod"
        )

    def is_orphaned(self, pods: Container[str]) -> bool:
        """Return whether it is kept for pods, and none of them is among these, by uid."""
        return bool(self.users) and not any(uid in pods for uid in self.users)

    @property
    def made_by_scheduler(self) -> bool:
        """Whether it says that a scheduler made it for a pod that asks by extended resource."""
        return self.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true"

    def made_for(self, uid: str) -> bool:
        """Return whether a scheduler made it for this pod alone; the annotation alone can be forged."""
        owners = {
            owner_reference.uid
            for owner_reference in self.metadata.owner_references
            if owner_reference.kind == "Pod"
        }
        return (
            self.made_by_scheduler
            and owners == {uid}
            and all(each.uid == uid for each in self.status.reserved_for)
        )
