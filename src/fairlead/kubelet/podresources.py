"""The kubelet's books: which container holds which units, and which devices through which claim.

books = await read_books(Path("/var/lib/kubelet/pod-resources/kubelet.sock"))
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead import varint
from fairlead.errors import KubeletError
from fairlead.kubelet import messages as wire
from fairlead.kubelet.proto import decode
from fairlead.kubelet.sockets import call
from fairlead.offer import DRIVER

RESPONSE_LIMIT: Final = 16 * 1024 * 1024
"""The longest books that are read; every unit held takes some 40 bytes of them."""
_LIST: Final = "/v1.PodResourcesLister/List"


@dataclass(frozen=True, slots=True)
class ContainerUnits:
    """The units of one resource that a container holds."""

    namespace: str
    pod: str
    container: str
    resource: str
    ids: tuple[str, ...]
    """In no order: the kubelet has none."""


@dataclass(frozen=True, slots=True)
class ContainerClaimDevice:
    """A device that a container has through a claim."""

    namespace: str
    """Of the pod, and of the claim."""
    pod: str
    container: str
    claim: str
    driver: str
    pool: str
    device: str
    share: str
    """Empty where the claim has the whole device."""


Container = tuple[str, frozenset[str]]
"""A container's name, and the resources of which it holds units."""


@dataclass(frozen=True, slots=True)
class KubeletPod:
    """A pod that a kubelet knows, admitted or about to be, and which resources its containers hold."""

    namespace: str
    name: str
    held: Mapping[str, frozenset[str]]
    """By container; init containers are there only where they go on running."""


@dataclass(frozen=True, slots=True)
class PodResourcesListing:
    """Who holds what on a node."""

    devices: tuple[ContainerUnits, ...]
    claims: tuple[ContainerClaimDevice, ...]


async def read_pod_resources(
    socket: Path, timeout: float = 5.0, prefix: str = f"{DRIVER}/"
) -> PodResourcesListing:
    """Ask the kubelet what our resources and our driver's claims are used by; KubeletError where it fails."""
    found = await call(socket, _LIST, wire.Empty(), wire.ListPodResourcesResponse, timeout, RESPONSE_LIMIT)
    return own_resources(found, prefix)


class PodReader:
    """Reads all pods that a kubelet knows, and decodes only what has changed since the last time.

    A kubelet admits the containers of a pod one by one, and is asked about each of them: most of its answer
    is what it said a moment ago.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._pods: dict[bytes, KubeletPod] = {}
        """By what the kubelet said of a pod."""
        self._containers: dict[tuple[str, str], dict[bytes, Container]] = {}
        """By the pod's namespace and name, and by what the kubelet said of a container."""
        self.decoded = 0
        """How many containers were decoded so far."""

    async def read(self, timeout: float = 5.0) -> list[KubeletPod]:
        """Ask the kubelet for all pods that it knows; KubeletError where it fails."""
        answer = await call(
            self._socket, _LIST, wire.Empty(), wire.EncodedListResponse, timeout, RESPONSE_LIMIT
        )
        try:
            return self.decode_pods(answer)
        except ValueError as error:
            raise KubeletError(f"{self._socket}: {error}", "see whether the kubelet runs") from error

    def decode_pods(self, answer: wire.EncodedListResponse) -> list[KubeletPod]:
        """Return the pods of an answer; ValueError where it cannot be read."""
        before = self._pods
        self._pods = {closed: before.get(closed) or self._pod(closed) for closed in answer.pod_resources}
        if len(self._containers) > len(self._pods):
            names = {(each.namespace, each.name) for each in self._pods.values()}
            self._containers = {key: each for key, each in self._containers.items() if key in names}
        return list(self._pods.values())

    def _pod(self, closed: bytes) -> KubeletPod:
        pod = decode(wire.EncodedPodResources, closed)
        before = self._containers.get((pod.namespace, pod.name), {})
        now = {each: before.get(each) or self._container(each) for each in pod.containers}
        self._containers[pod.namespace, pod.name] = now
        return KubeletPod(pod.namespace, pod.name, dict(now.values()))

    def _container(self, closed: bytes) -> Container:
        self.decoded += 1
        container = decode(wire.ContainerResources, closed)
        return container.name, frozenset(_opened(container.devices))


def own_resources(listed: wire.ListPodResourcesResponse, prefix: str = f"{DRIVER}/") -> PodResourcesListing:
    """Return what is ours in a kubelet's books."""
    used = [(pod, container) for pod in listed.pod_resources for container in pod.containers]
    return PodResourcesListing(
        tuple(held for pod, container in used for held in _units(pod, container, prefix)),
        tuple(held for pod, container in used for held in _claims(pod, container)),
    )


def _units(
    pod: wire.PodResources, container: wire.ContainerResources, prefix: str
) -> Iterator[ContainerUnits]:
    for resource, ids in _opened(container.devices).items():
        if resource.startswith(prefix):
            yield ContainerUnits(pod.namespace, pod.name, container.name, resource, tuple(ids))


def _claims(pod: wire.PodResources, container: wire.ContainerResources) -> Iterator[ContainerClaimDevice]:
    where = (pod.namespace, pod.name, container.name)
    for claim in container.dynamic_resources:
        for used in claim.claim_resources:
            if used.driver_name == DRIVER:
                device = (used.driver_name, used.pool_name, used.device_name, used.share_id or "")
                yield ContainerClaimDevice(*where, claim.claim_name, *device)


def _opened(entries: Iterable[bytes]) -> dict[str, list[str]]:
    """Return a container's units by resource.

    A kubelet writes an entry for every unit, all units of a resource in a row: after the first of a row the
    others differ only behind the resource's name, so they need not be decoded.
    """
    held: dict[str, list[str]] = {}
    row: list[str] = []
    head, size = b"", 0
    for entry in entries:
        rest = len(entry) - size - 1
        # A short id and nothing behind it: the byte before it says how long the rest is.
        if size and 0 <= rest < 0x80 and entry.startswith(head) and entry[size] == rest:
            row.append(entry[size + 1 :].decode())
            continue
        opened = decode(wire.ContainerDevices, entry)
        row = held.setdefault(opened.resource_name, [])
        row.extend(opened.device_ids)
        name = opened.resource_name.encode()
        head = b"\x0a" + varint.encode(len(name)) + name + b"\x12"
        size = len(head)
    return held
