"""Find the pod for which a kubelet allocates units: the call names no pod, but pod resources do. Pure.

A kubelet admits one pod after the other. Its PodResources API already lists the pod that it is about to
admit, does not list later pods yet, and shows that earlier pods hold what they requested. So the pod that
requests exactly this number of units and holds none of them is the one being admitted.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairlead.cluster.objects import Container, ContainerExtendedResourceRequest, Pod
from fairlead.keys import MEMORY_LIMIT, PLACEMENT
from fairlead.kubelet.podresources import KubeletPod
from fairlead.offer import DRIVER
from fairlead.placement import PLACEMENTS, parse_shares
from fairlead.publish.memory_limit import MemoryLimit
from fairlead.serve.agent.pod_limiter import LimiterRequest, limiter_request
from fairlead.share import DeviceShare
from fairlead.units import Bytes, parse_quantity

PodKey = tuple[str, str]
"""A pod's namespace and name: the PodResources API has no uid."""
_WAITING: Final = ("", "Pending")
_DIGITS: Final = 18
"""The most digits of a limit in bytes."""


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a pod requests of our resources, and the accelerators that a scheduler chose for it."""

    uid: str = ""
    units_by_container: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By container: units of our resources."""
    init_containers: frozenset[str] = frozenset()
    """Init containers that run to completion: the PodResources API never lists them."""
    admitted_before: bool = False
    """The kubelet has already reported a status for the pod, so it admitted or refused the pod before."""
    shares: tuple[DeviceShare, ...] | None = None
    """The accelerators that our scheduler chose; None where another scheduler placed the pod."""
    newer: str = ""
    """Why the placement cannot be read: a newer scheduler wrote it."""
    limits: Mapping[str, MemoryLimit] = field(default_factory=dict)
    """By container: the memory that our scheduler lets it take of each accelerator; empty: no limit."""
    limiters: Mapping[str, LimiterRequest] = field(default_factory=dict)
    """By container: what it asks of the limiter; empty: nothing."""
    containers_by_units: Mapping[tuple[str, int], Sequence[str]] = field(
        init=False, compare=False, repr=False
    )
    """By resource and number of units, the containers that request exactly these, in the kubelet's order."""

    def __post_init__(self) -> None:
        """Index containers by request: a kubelet allocates for each of them, and there may be hundreds."""
        containers_by_units: dict[tuple[str, int], list[str]] = {}
        for name, units in self.units_by_container.items():
            for key in units.items():
                containers_by_units.setdefault(key, []).append(name)
        object.__setattr__(self, "containers_by_units", containers_by_units)


@dataclass(frozen=True, slots=True)
class CandidateContainer:
    """A container for which the kubelet may be allocating."""

    pod: str
    """`namespace/name`."""
    container: str
    request: PodRequest

    @property
    def limit(self) -> MemoryLimit | None:
        """The memory that it may take of each of its accelerators; None: no limit."""
        return self.request.limits.get(self.container)

    @property
    def limiter(self) -> LimiterRequest | None:
        """What it asks of the limiter; None: nothing."""
        return self.request.limiters.get(self.container)

    @property
    def key(self) -> tuple[str, str]:
        """The pod's uid and the container's name, which identify the container."""
        return self.request.uid, self.container


def pod_request(pod: Pod, node: str, *, hami: bool = False) -> PodRequest:
    """Return what a pod requests on a node; an empty request where the pod is not on that node.

    `hami`: a pod with HAMi's resources asks for the limiter.
    """
    if pod.spec.node_name != node:
        return PodRequest(pod.metadata.uid)
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    by_claim = pod.status.extended_resource_claim_status.request_mappings
    placement = pod.metadata.annotations.get(PLACEMENT)
    limits = {
        container.name: limit
        for container in containers
        if (limit := memory_limit(pod, frozenset({container.name})))
    }
    return PodRequest(
        pod.metadata.uid,
        {container.name: units for container in containers if (units := _units(container, by_claim))},
        frozenset(
            init_container.name
            for init_container in pod.spec.init_containers
            if init_container.restart_policy != "Always"
        ),
        bool(pod.status.start_time) or pod.status.phase not in _WAITING,
        None if placement is None else parse_shares(placement) or (),
        str(PLACEMENTS.newer(placement or "") or ""),
        limits,
        {
            name: limiter
            for name in (container.name for container in containers)
            if (limiter := limiter_request(pod, limits.get(name), {name}, hami=hami))
        },
    )


def memory_limit(pod: Pod, containers: Collection[str] = ()) -> MemoryLimit | None:
    """Return the limit that our scheduler set for a pod, with the variables that these containers set.

    Without names, with the variables of all containers. None: the pod has no limit, or one that is no number.
    """
    text = pod.metadata.annotations.get(MEMORY_LIMIT, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS) or not int(text):
        return None
    every = (*pod.spec.init_containers, *pod.spec.containers)
    own = {
        variable.name for each in every if not containers or each.name in containers for variable in each.env
    }
    return MemoryLimit(Bytes(int(text)), frozenset(own))


def pending_containers(request: PodRequest, listed: KubeletPod, resource: str, size: int) -> list[str]:
    """Return the containers of a pod for which a kubelet may allocate `size` units, in the kubelet's order.

    The PodResources API does not list init containers, so the caller remembers which ones it has answered.
    """
    return [
        name
        for name in request.containers_by_units.get((resource, size), ())
        if name in request.init_containers or resource not in listed.held.get(name, {resource})
    ]


def candidates(
    listed: Iterable[KubeletPod],
    requests: Mapping[PodKey, PodRequest],
    resource: str,
    size: int,
    answered: Collection[tuple[str, str]],
) -> list[CandidateContainer]:
    """Return the containers for which a kubelet may be allocating: mostly one.

    A pod that was admitted or refused before is a candidate only where no other pod is. That happens after
    a restart of the node, when the kubelet allocates again for a pod that it had admitted.
    """
    every = list(_candidates(listed, requests, resource, size))
    new = [each for each in every if not each.request.admitted_before]
    return [each for each in new if each.key not in answered] or new or every


def same_accelerators(containers: Iterable[CandidateContainer]) -> bool:
    """Say whether all candidates have the same chosen accelerators and limits, or none has any."""
    chosen = {
        (
            None if each.request.shares is None else accelerators_of(each.request.shares),
            each.limit,
            each.limiter,
        )
        for each in containers
    }
    return len(chosen) <= 1


def accelerators_of(shares: Iterable[DeviceShare]) -> frozenset[str]:
    """Return the accelerators of shares."""
    return frozenset(share.device for share in shares)


def _candidates(
    listed: Iterable[KubeletPod], requests: Mapping[PodKey, PodRequest], resource: str, size: int
) -> Iterator[CandidateContainer]:
    for pod in listed:
        request = requests.get((pod.namespace, pod.name), PodRequest())
        for container in pending_containers(request, pod, resource, size):
            yield CandidateContainer(f"{pod.namespace}/{pod.name}", container, request)


def _units(container: Container, by_claim: Iterable[ContainerExtendedResourceRequest]) -> dict[str, int]:
    amounts = {**container.resources.limits, **container.resources.requests}
    claimed = {each.resource_name for each in by_claim if each.container_name == container.name}
    return {
        name: parse_quantity(text)
        for name, text in amounts.items()
        if name.startswith(f"{DRIVER}/") and name not in claimed
    }
