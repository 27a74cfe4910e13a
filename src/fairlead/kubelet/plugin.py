"""A device plugin: lists the units of one extended resource, and allocates them to containers.

plugin = DevicePlugin("fairlead.dev/gpu-mem", ledger, folder, registry)
await plugin.open(offer)      # a kubelet registers it, now and after its restarts
plugin.offer(other)           # the kubelet gets the new list at once
await plugin.close()          # the kubelet drops the resource
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from fairlead.compat.aio import timeout
from fairlead.kubelet import messages as wire
from fairlead.kubelet.listing import LIST_LIMIT, check, encode_list, encoded_size
from fairlead.kubelet.registration import Registered, Registrar
from fairlead.kubelet.sockets import LONGEST_PATH, GrpcServer, Method, StreamMethod, UnaryMethod, quiet
from fairlead.offer import Grant, Offer

__all__ = ["LIST_LIMIT", "DevicePlugin", "UnitAllocator", "encoded_size", "socket_paths"]

_SERVICE: Final = "/v1beta1.DevicePlugin"
_OPTIONS: Final = wire.DevicePluginOptions(get_preferred_allocation_available=True)
_WATCH_TIMEOUT: Final = 10.0


class UnitAllocator(Protocol):
    """What decides which units a container gets, and what it receives with them."""

    async def prefer(
        self, resource: str, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Return `size` of the available units, with all required ones; AllocationRefusedError for none."""

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        """Return what a container receives with these units; AllocationRefusedError with the reason."""


class DevicePlugin:
    """The device plugin of one resource."""

    def __init__(  # its resource, its sockets, and its callbacks
        self,
        resource: str,
        allocator: UnitAllocator,
        folder: Path,
        registry: Path,
        on_status: Callable[[Registered], None] = quiet,
        *,
        say: Callable[[str], None] = quiet,
        watch_timeout: float = _WATCH_TIMEOUT,
    ) -> None:
        self.resource = resource
        self._allocator = allocator
        self._say = say
        self._watch_timeout = watch_timeout
        self._offer = Offer(resource)
        self._changed = asyncio.Event()
        self._streams = 0
        self._closing = asyncio.Event()
        self._reregister_task: asyncio.Task[None] | None = None
        endpoint, registration = socket_paths(resource, folder, registry)
        plugin = ("DevicePlugin", resource, ("v1beta1",))
        self._registrar = Registrar(
            GrpcServer(endpoint, self._methods(), say), registration, plugin, on_status, say
        )

    @property
    def registered(self) -> Registered | None:
        """The kubelet's last registration status; None before the first."""
        return self._registrar.registered

    @property
    def has_watcher(self) -> bool:
        """Whether a kubelet has a ListAndWatch stream open."""
        return self._streams > 0

    async def open(self, offer: Offer) -> None:
        """Start serving; ValueError for too long a list, KubeletError where no socket can be opened."""
        self._offer = check(offer)
        self._closing.clear()
        await self._registrar.open()

    def offer(self, offer: Offer) -> None:
        """Send a new list to every open stream; ValueError for too long a list, and the old one stays."""
        if offer != self._offer:
            self._offer = check(offer)
            self._notify_streams()

    async def close(self) -> None:
        """Unregister from the kubelet, end the streams, and remove the sockets."""
        self._closing.set()
        if self._reregister_task is not None:
            await asyncio.wait([self._reregister_task])
        self._notify_streams()
        await self._registrar.close()

    def _notify_streams(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _methods(self) -> tuple[Method, ...]:
        return (
            UnaryMethod(f"{_SERVICE}/GetDevicePluginOptions", wire.Empty, self._options),
            UnaryMethod(f"{_SERVICE}/GetPreferredAllocation", wire.PreferredAllocationRequest, self._prefer),
            UnaryMethod(f"{_SERVICE}/Allocate", wire.AllocateRequest, self._allocate),
            StreamMethod(f"{_SERVICE}/ListAndWatch", self._list),
        )

    async def _options(self, _: wire.Empty) -> wire.DevicePluginOptions:
        return _OPTIONS

    async def _list(self) -> AsyncGenerator[bytes, None]:
        """Yield the list now and after each change; a slow reader gets the latest and never a queue."""
        self._streams += 1
        try:
            while not self._closing.is_set():
                changed = self._changed
                yield encode_list(self._offer)
                await changed.wait()
        finally:
            self._streams -= 1
            if not self._closing.is_set() and not self._streams:
                self._reregister_task = self._reregister_task or asyncio.create_task(
                    self._reregister_if_unwatched()
                )

    async def _reregister_if_unwatched(self) -> None:
        """Register again if no stream is opened: a kubelet that lost its stream waits for a new socket."""
        try:
            with suppress(TimeoutError):
                async with timeout(self._watch_timeout):
                    await self._closing.wait()
            if not self._closing.is_set() and not self._streams:
                self._say(f"{self.resource}: no kubelet watches the list any more, registering again")
                await self._registrar.reregister()
        finally:
            self._reregister_task = None

    async def _prefer(self, request: wire.PreferredAllocationRequest) -> wire.PreferredAllocationResponse:
        answers = []
        for container in request.container_requests:
            available, required = container.available_device_ids, container.must_include_device_ids
            ids = await self._allocator.prefer(self.resource, available, required, container.allocation_size)
            answers.append(wire.ContainerPreferredAllocationResponse(tuple(ids)))
        return wire.PreferredAllocationResponse(tuple(answers))

    async def _allocate(self, request: wire.AllocateRequest) -> wire.AllocateResponse:
        grants = [
            await self._allocator.allocate(self.resource, container.devices_ids)
            for container in request.container_requests
        ]
        return wire.AllocateResponse(tuple(_granted(grant) for grant in grants))


def _granted(grant: Grant) -> wire.ContainerAllocateResponse:
    return wire.ContainerAllocateResponse(
        envs=grant.env,
        mounts=tuple(wire.Mount(mount.path, mount.host, read_only=True) for mount in grant.mounts),
        devices=tuple(wire.DeviceSpec(node.path, node.host, "rw") for node in grant.nodes),
        cdi_devices=tuple(wire.CDIDevice(name) for name in grant.cdi),
    )


def socket_paths(resource: str, folder: Path, registry: Path) -> tuple[Path, Path]:
    """Return the sockets of a resource's endpoint and registration; too long a name is shortened."""
    slug = resource.rpartition("/")[2]
    room = LONGEST_PATH - max(len(os.fsencode(folder / ".sock")), len(os.fsencode(registry / "-reg.sock")))
    if len(slug) > room:
        digest = hashlib.sha256(resource.encode()).hexdigest()[:8]
        slug = f"{slug[: max(0, room - 9)]}-{digest}".removeprefix("-")
    return folder / f"{slug}.sock", registry / f"{slug}-reg.sock"
