"""The kubelet's PodResources API: which container holds which units, and which devices by which claim.

listing = await read_pod_resources(Path("/var/lib/kubelet/pod-resources/kubelet.sock"))
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
"""The longest response that is read; every unit held takes some 40 bytes of it."""
_LIST: Final = "/v1.PodResourcesLister/List"


@dataclass(frozen=True, slots=True)
class ContainerUnits:
    """The units of one resource that a container holds."""

    namespace: str
    pod: str
    container: str
    resource: str
    ids: tuple[str, ...]
    """Unordered: the kubelet keeps no order."""


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
    """A pod that a kubelet lists, admitted or about to be, and the resources its containers hold."""

    namespace: str
    name: str
    held: Mapping[str, frozenset[str]]
    """By container; of init containers, only those that keep running (sidecars)."""


@dataclass(frozen=True, slots=True)
class PodResourcesListing:
    """Which containers hold which of our units and claim devices on a node."""

    devices: tuple[ContainerUnits, ...]
    claims: tuple[ContainerClaimDevice, ...]


async def read_pod_resources(
    socket: Path, timeout: float = 5.0, prefix: str = f"{DRIVER}/"
) -> PodResourcesListing:
    """List the containers that hold our resources and our driver's claims; KubeletError on failure."""
    response = await call(socket, _LIST, wire.Empty(), wire.ListPodResourcesResponse, timeout, RESPONSE_LIMIT)
    return own_resources(response, prefix)


class PodReader:
    """Reads all pods that a kubelet lists, and decodes only what has changed since the last read.

    A kubelet admits the containers of a pod one by one, and the agent reads the list for each of them: most
    of the answer is the same as a moment ago.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._pods: dict[bytes, KubeletPod] = {}
        """By the encoded pod."""
        self._containers: dict[tuple[str, str], dict[bytes, Container]] = {}
        """By the pod's namespace and name, and by the encoded container."""
        self.decoded = 0
        """The number of containers decoded so far."""

    async def read(self, timeout: float = 5.0) -> list[KubeletPod]:
        """List all pods that the kubelet knows; KubeletError on failure."""
        answer = await call(
            self._socket, _LIST, wire.Empty(), wire.EncodedListResponse, timeout, RESPONSE_LIMIT
        )
        try:
            return self.decode_pods(answer)
        except ValueError as error:
            raise KubeletError(f"{self._socket}: {error}", "check that the kubelet runs") from error

    def decode_pods(self, answer: wire.EncodedListResponse) -> list[KubeletPod]:
        """Return the pods of a response; ValueError where it cannot be decoded."""
        before = self._pods
        self._pods = {encoded: before.get(encoded) or self._pod(encoded) for encoded in answer.pod_resources}
        if len(self._containers) > len(self._pods):
            names = {(each.namespace, each.name) for each in self._pods.values()}
            self._containers = {key: each for key, each in self._containers.items() if key in names}
        return list(self._pods.values())

    def _pod(self, encoded: bytes) -> KubeletPod:
        pod = decode(wire.EncodedPodResources, encoded)
        before = self._containers.get((pod.namespace, pod.name), {})
        now = {each: before.get(each) or self._container(each) for each in pod.containers}
        self._containers[pod.namespace, pod.name] = now
        return KubeletPod(pod.namespace, pod.name, dict(now.values()))

    def _container(self, encoded: bytes) -> Container:
        self.decoded += 1
        container = decode(wire.ContainerResources, encoded)
        return container.name, frozenset(_units_by_resource(container.devices))


def own_resources(listed: wire.ListPodResourcesResponse, prefix: str = f"{DRIVER}/") -> PodResourcesListing:
    """Return what containers hold of our resources and of our driver's claims."""
    containers = [(pod, container) for pod in listed.pod_resources for container in pod.containers]
    return PodResourcesListing(
        tuple(held for pod, container in containers for held in _units(pod, container, prefix)),
        tuple(held for pod, container in containers for held in _claims(pod, container)),
    )


def _units(
    pod: wire.PodResources, container: wire.ContainerResources, prefix: str
) -> Iterator[ContainerUnits]:
    for resource, ids in _units_by_resource(container.devices).items():
        if resource.startswith(prefix):
            yield ContainerUnits(pod.namespace, pod.name, container.name, resource, tuple(ids))


def _claims(pod: wire.PodResources, container: wire.ContainerResources) -> Iterator[ContainerClaimDevice]:
    where = (pod.namespace, pod.name, container.name)
    for claim in container.dynamic_resources:
        for used in claim.claim_resources:
            if used.driver_name == DRIVER:
                device = (used.driver_name, used.pool_name, used.device_name, used.share_id or "")
                yield ContainerClaimDevice(*where, claim.claim_name, *device)


def _units_by_resource(entries: Iterable[bytes]) -> dict[str, list[str]]:
    """Return a container's units by resource.

    A kubelet writes an entry for every unit, all units of a resource in a row. After the first of a row the
    others differ only after the resource's name, so they need not be decoded.
    """
    held: dict[str, list[str]] = {}
    row: list[str] = []
    head, size = b"", 0
    for entry in entries:
        rest = len(entry) - size - 1
        # A short id that ends the entry: the byte before it is its length.
        if size and 0 <= rest < 0x80 and entry.startswith(head) and entry[size] == rest:
            row.append(entry[size + 1 :].decode())
            continue
        decoded = decode(wire.ContainerDevices, entry)
        row = held.setdefault(decoded.resource_name, [])
        row.extend(decoded.device_ids)
        name = decoded.resource_name.encode()
        head = b"\x0a" + varint.encode(len(name)) + name + b"\x12"
        size = len(head)
    return held
