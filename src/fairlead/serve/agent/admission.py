"""Whose turn it is when a kubelet asks for units: the call names no pod, but its books tell. Pure.

A kubelet admits one pod after the other. The one that it is about to admit stands in its books already,
those that come later do not yet, and those before it hold what they wanted. So the pod that wants just so
many units and holds none of them is the one in question.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairlead.cluster.objects import Container, ContainerExtendedResourceRequest, Pod
from fairlead.keys import PLACEMENT
from fairlead.kubelet.podresources import KubeletPod
from fairlead.offer import DRIVER
from fairlead.placement import PLACEMENTS, DeviceShare, parse_shares
from fairlead.units import parse_quantity

PodKey = tuple[str, str]
"""A pod's namespace and name: a kubelet's books know no uid."""
_WAITING: Final = ("", "Pending")


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod as far as it says what it wants, and what was chosen for it."""

    uid: str = ""
    units_by_container: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By container: units of our resources."""
    init_containers: frozenset[str] = frozenset()
    """Init containers that come to an end: the books never show them."""
    admitted_before: bool = False
    """The kubelet has reported of it, so it was let in, or refused, before."""
    shares: tuple[DeviceShare, ...] | None = None
    """What a scheduler of ours chose; None: another placed it."""
    newer: str = ""
    """Why the placement cannot be read: a newer scheduler wrote it."""
    sizes: Mapping[tuple[str, int], Sequence[str]] = field(init=False, compare=False, repr=False)
    """By resource and units, the containers that want just these, in the kubelet's order."""

    def __post_init__(self) -> None:
        """Sort containers by what they want: a kubelet asks once for each, and there may be hundreds."""
        sizes: dict[tuple[str, int], list[str]] = {}
        for name, units in self.units_by_container.items():
            for key in units.items():
                sizes.setdefault(key, []).append(name)
        object.__setattr__(self, "sizes", sizes)


@dataclass(frozen=True, slots=True)
class CandidateContainer:
    """A container that the kubelet may be asking for."""

    pod: str
    """`namespace/name`."""
    container: str
    request: PodRequest

    @property
    def mark(self) -> tuple[str, str]:
        """What tells it from all others."""
        return self.request.uid, self.container


def pod_request(pod: Pod, node: str) -> PodRequest:
    """Return what a pod wants of a node; nothing where it is not, or no longer, there."""
    if pod.spec.node_name != node:
        return PodRequest(pod.metadata.uid)
    every = (*pod.spec.init_containers, *pod.spec.containers)
    by_claim = pod.status.extended_resource_claim_status.request_mappings
    note = pod.metadata.annotations.get(PLACEMENT)
    return PodRequest(
        pod.metadata.uid,
        {each.name: found for each in every if (found := _units(each, by_claim))},
        frozenset(
            init_container.name
            for init_container in pod.spec.init_containers
            if init_container.restart_policy != "Always"
        ),
        bool(pod.status.start_time) or pod.status.phase not in _WAITING,
        None if note is None else parse_shares(note) or (),
        str(PLACEMENTS.newer(note or "") or ""),
    )


def pending_containers(wanted: PodRequest, listed: KubeletPod, resource: str, size: int) -> list[str]:
    """Return the containers of a pod for which a kubelet may ask for so many units, in its order.

    Of init containers the books cannot tell; whether one had its turn must be remembered.
    """
    return [
        name
        for name in wanted.sizes.get((resource, size), ())
        if name in wanted.init_containers or resource not in listed.held.get(name, {resource})
    ]


def candidates(
    listed: Iterable[KubeletPod],
    wishes: Mapping[PodKey, PodRequest],
    resource: str,
    size: int,
    answered: Collection[tuple[str, str]],
) -> list[CandidateContainer]:
    """Return for whom a kubelet may be asking: mostly one.

    Who was let in or refused before is in question only where nobody else is: so it is after a restart of
    the node, when a kubelet asks anew for a pod that it had let in.
    """
    found = list(_open(listed, wishes, resource, size))
    new = [each for each in found if not each.request.admitted_before]
    return [each for each in new if each.mark not in answered] or new or found


def same_accelerators(found: Iterable[CandidateContainer]) -> bool:
    """Say whether it is all the same who is asked for: the same was chosen for all, or nothing for any."""
    chosen = {None if each.request.shares is None else accelerators_of(each.request.shares) for each in found}
    return len(chosen) <= 1


def accelerators_of(shares: Iterable[DeviceShare]) -> frozenset[str]:
    """Return the accelerators of shares."""
    return frozenset(share.device for share in shares)


def _open(
    listed: Iterable[KubeletPod], wishes: Mapping[PodKey, PodRequest], resource: str, size: int
) -> Iterator[CandidateContainer]:
    for each in listed:
        wanted = wishes.get((each.namespace, each.name), PodRequest())
        for container in pending_containers(wanted, each, resource, size):
            yield CandidateContainer(f"{each.namespace}/{each.name}", container, wanted)


def _units(container: Container, by_claim: Iterable[ContainerExtendedResourceRequest]) -> dict[str, int]:
    asked = {**container.resources.limits, **container.resources.requests}
    apart = {each.resource_name for each in by_claim if each.container_name == container.name}
    return {
        name: parse_quantity(text)
        for name, text in asked.items()
        if name.startswith(f"{DRIVER}/") and name not in apart
    }
