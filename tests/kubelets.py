"""A fake kubelet for plugins and clients of its PodResources API; it decides nothing by itself.

It discovers registrations in a folder, watches the lists, asks for preferred units, allocates them, prepares
claims, and lists holders. A restart drops every connection and keeps the allocations, as in a real one.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from grpclib.client import Channel
from grpclib.const import Cardinality
from grpclib.encoding.base import CodecBase

from fairlead.errors import KubeletError
from fairlead.kubelet import messages as wire
from fairlead.kubelet.proto import decode, encode
from fairlead.kubelet.sockets import GrpcServer, UnaryMethod, call

LIMIT = 16 << 20
PATIENCE = 10.0
_DRA = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
_PLUGIN = "/v1beta1.DevicePlugin"


class _Bytes(CodecBase):
    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return data


class Kubelet:
    """One node's kubelet."""

    def __init__(self, folder: Path, pod_resources: Path) -> None:
        self.registry = folder / "plugins_registry" / "fairlead.dev"
        self.sockets = folder / "plugins" / "fairlead.dev"
        self.units: dict[str, dict[str, bool]] = {}
        """By resource, each unit and whether it is healthy."""
        self.held: dict[tuple[str, str], tuple[str, ...]] = {}
        """By pod and resource, the units; a container other than the main one is `pod/container`."""
        self.known: list[str] = []
        """Listed pods that hold nothing: the pod being admitted, and refused pods."""
        self.ignores_preference = False
        """Whether it takes the last free units, whatever units are preferred."""
        self.claims: dict[str, str] = {}
        """By the name of a prepared claim, its device."""
        self._plugins: dict[Path, asyncio.Task[None]] = {}
        self._endpoints: dict[str, Path] = {}
        self._task: asyncio.Task[None] | None = None
        self._pod_resources = GrpcServer(
            pod_resources, [UnaryMethod("/v1.PodResourcesLister/List", wire.Empty, self._list)]
        )
        for place in (self.registry, self.sockets):
            place.mkdir(parents=True, exist_ok=True)

    async def start(self) -> None:
        """Start the discovery of plugins, and serve the PodResources API."""
        await self._pod_resources.open()
        self._task = asyncio.create_task(self._discover())

    async def stop(self) -> None:
        """Close every connection."""
        tasks = [task for task in (self._task, *self._plugins.values()) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._plugins, self._endpoints, self.units = {}, {}, {}
        await self._pod_resources.close()

    async def hand_on(self, init: str, pod: str, resource: str) -> wire.ContainerAllocateResponse:
        """Allocate the units of an init container to a later one: a kubelet asks for no preference then."""
        units = self.held.pop((init, resource))
        self.known.append(pod)
        request = wire.AllocateRequest((wire.ContainerAllocateRequest(units),))
        answer = await self._ask(resource, "Allocate", request, wire.AllocateResponse)
        self.held[pod, resource] = units
        self.known.remove(pod)
        (response,) = answer.container_responses
        assert isinstance(response, wire.ContainerAllocateResponse)
        return response

    async def admit(self, pod: str, resource: str, size: int) -> wire.ContainerAllocateResponse:
        """Allocate units to a pod, or `pod/container`; KubeletError with the reason if the plugin refuses."""
        self.known.append(pod)
        taken = {unit for (_, name), units in self.held.items() for unit in units if name == resource}
        free = tuple(
            unit for unit, healthy in self.units.get(resource, {}).items() if healthy and unit not in taken
        )
        if len(free) < size:
            raise KubeletError(f"{len(free)} of {size} units are free")
        container = wire.ContainerPreferredAllocationRequest(free, (), size)
        preferred = await self._ask(
            resource,
            "GetPreferredAllocation",
            wire.PreferredAllocationRequest((container,)),
            wire.PreferredAllocationResponse,
        )
        units = (
            free[-size:]
            if self.ignores_preference
            else preferred.container_responses[0].device_ids or free[:size]
        )
        request = wire.AllocateRequest((wire.ContainerAllocateRequest(tuple(units)),))
        answer = await self._ask(resource, "Allocate", request, wire.AllocateResponse)
        self.held[pod, resource] = tuple(units)
        self.known.remove(pod)
        (response,) = answer.container_responses
        assert isinstance(response, wire.ContainerAllocateResponse)
        return response

    async def prepare(self, name: str, uid: str, device: str) -> wire.NodePrepareResourceResponse:
        """Prepare a claim; return its devices, or the error."""
        request = wire.NodeResourcesRequest((wire.Claim("default", uid, name),))
        path = self._endpoints["fairlead.dev"]
        answer = await call(
            path, f"{_DRA}/NodePrepareResources", request, wire.NodePrepareResourcesResponse, PATIENCE, LIMIT
        )
        if not answer.claims[uid].error:
            self.claims[name] = device
        return answer.claims[uid]

    async def unprepare(self, name: str, uid: str) -> str:
        """Unprepare a claim; return the error."""
        request = wire.NodeResourcesRequest((wire.Claim("default", uid, name),))
        path = self._endpoints["fairlead.dev"]
        answer = await call(
            path,
            f"{_DRA}/NodeUnprepareResources",
            request,
            wire.NodeUnprepareResourcesResponse,
            PATIENCE,
            LIMIT,
        )
        if not answer.claims[uid].error:
            self.claims.pop(name, None)
        return answer.claims[uid].error

    def end(self, pod: str) -> None:
        """End a pod: its units are free."""
        self.held = {key: units for key, units in self.held.items() if key[0] != pod}

    def healthy(self, resource: str) -> int:
        """Return the number of healthy units, held or free."""
        return sum(self.units.get(resource, {}).values())

    async def _ask(self, resource: str, method: str, request: Any, answer: Any) -> Any:
        if resource not in self._endpoints:
            raise KubeletError(f"{resource} is not registered")
        return await call(self._endpoints[resource], f"{_PLUGIN}/{method}", request, answer, PATIENCE, LIMIT)

    async def _list(self, _: wire.Empty) -> wire.ListPodResourcesResponse:
        rows: dict[str, dict[str, tuple[bytes, ...]]] = {}
        for name in self.known:
            pod, container = _parts(name)
            rows.setdefault(pod, {})[container] = ()
        for (name, resource), units in self.held.items():
            pod, container = _parts(name)
            rows.setdefault(pod, {})[container] = _entries(resource, units)
        pods = [
            wire.PodResources(
                pod, "default", tuple(wire.ContainerResources(*row) for row in rows[pod].items())
            )
            for pod in rows
        ]
        pods += [_pod_of_claim(name, device) for name, device in self.claims.items()]
        return wire.ListPodResourcesResponse(tuple(pods))

    async def _discover(self) -> None:
        while True:
            sockets = {path for path in self.registry.glob("*.sock") if path.is_socket()}
            # A socket appears before it listens; a real kubelet retries, too.
            failed = {path for path, task in self._plugins.items() if task.done() and task.exception()}
            for path in (self._plugins.keys() - sockets) | failed:
                self._plugins.pop(path).cancel()
            for path in sockets - self._plugins.keys():
                self._plugins[path] = asyncio.create_task(self._register(path))
            await asyncio.sleep(0.02)

    async def _register(self, path: Path) -> None:
        service = "/pluginregistration.Registration"
        info = await call(path, f"{service}/GetInfo", wire.Empty(), wire.PluginInfo, PATIENCE, LIMIT)
        self._endpoints[info.name] = Path(info.endpoint)
        follow = self._watch(info.name) if info.type == "DevicePlugin" else None
        following = asyncio.create_task(follow) if follow else None
        status = wire.RegistrationStatus(True)
        await call(path, f"{service}/NotifyRegistrationStatus", status, wire.Empty, PATIENCE, LIMIT)
        try:
            await (following or asyncio.Event().wait())
        finally:
            if following:
                following.cancel()
            self._endpoints.pop(info.name, None)
            self.units.pop(info.name, None)

    async def _watch(self, resource: str) -> None:
        channel = Channel(path=str(self._endpoints[resource]), codec=_Bytes())
        try:
            request = channel.request(f"{_PLUGIN}/ListAndWatch", Cardinality.UNARY_STREAM, bytes, bytes)
            with suppress(Exception):  # the plugin disconnected
                async with request as stream:
                    await stream.send_message(encode(wire.Empty()), end=True)
                    while (data := await stream.recv_message()) is not None:
                        devices = decode(wire.ListAndWatchResponse, data).devices
                        self.units[resource] = {each.id: each.health == "Healthy" for each in devices}
        finally:
            channel.close()


def _parts(name: str) -> tuple[str, str]:
    """Return the pod and the container of a name."""
    pod, _, container = name.partition("/")
    return pod, container or "main"


def _entries(resource: str, units: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(encode(wire.ContainerDevices(resource, (unit,))) for unit in units)


def _pod_of_claim(name: str, device: str) -> wire.PodResources:
    used = wire.ClaimResource("fairlead.dev", "n1", device)
    claim = wire.DynamicResource(name, "default", (used,))
    return wire.PodResources(f"pod-{name}", "default", (wire.ContainerResources("main", (), (claim,)),))
