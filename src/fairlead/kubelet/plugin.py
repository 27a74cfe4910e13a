"""A device plugin: offers the units of one extended resource, and says what a container gets for them.

plugin = DevicePlugin("fairlead.dev/gpu-mem", ledger, folder, registry)
await plugin.open(offer)      # a kubelet comes, now and after its restarts
plugin.offer(other)           # it hears of the change at once
await plugin.close()          # it lets go of the resource
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
_PATIENCE: Final = 10.0


class UnitAllocator(Protocol):
    """Who decides which units a container gets, and what these bring."""

    async def prefer(
        self, resource: str, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        """Return `size` of the available units, the required ones among them; RefusedError where no good."""

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        """Return what a container receives with these units; RefusedError with the reason where nothing."""


class DevicePlugin:
    """The device plugin of one resource."""

    def __init__(  # what a plugin is, where it lives, and who hears of it
        self,
        resource: str,
        allocator: UnitAllocator,
        folder: Path,
        registry: Path,
        told: Callable[[Registered], None] = quiet,
        *,
        say: Callable[[str], None] = quiet,
        patience: float = _PATIENCE,
    ) -> None:
        self.resource = resource
        self._allocator = allocator
        self._say = say
        self._patience = patience
        self._offer = Offer(resource)
        self._bell = asyncio.Event()
        self._streams = 0
        self._over = asyncio.Event()
        self._vigil: asyncio.Task[None] | None = None
        endpoint, registration = socket_paths(resource, folder, registry)
        plugin = ("DevicePlugin", resource, ("v1beta1",))
        self._entrance = Registrar(
            GrpcServer(endpoint, self._methods(), say), registration, plugin, told, say
        )

    @property
    def registered(self) -> Registered | None:
        """What the kubelet last said of the registration; None before it came."""
        return self._entrance.registered

    @property
    def has_watcher(self) -> bool:
        """Whether a kubelet listens at present."""
        return self._streams > 0

    async def open(self, offer: Offer) -> None:
        """Begin to serve; ValueError where the list is too long, KubeletError where there is no socket."""
        self._offer = check(offer)
        self._over.clear()
        await self._entrance.open()

    def offer(self, offer: Offer) -> None:
        """Tell every kubelet that listens; ValueError where the list is too long, and the old one stays."""
        if offer != self._offer:
            self._offer = check(offer)
            self._ring()

    async def close(self) -> None:
        """Have the kubelet let go of the resource, end the streams, and leave no socket."""
        self._over.set()
        if self._vigil is not None:
            await asyncio.wait([self._vigil])
        self._ring()
        await self._entrance.close()

    def _ring(self) -> None:
        bell, self._bell = self._bell, asyncio.Event()
        bell.set()

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
        """Yield the list, and each time it changes; a slow reader gets the latest and never a queue."""
        self._streams += 1
        try:
            while not self._over.is_set():
                bell = self._bell
                yield encode_list(self._offer)
                await bell.wait()
        finally:
            self._streams -= 1
            if not self._over.is_set() and not self._streams:
                self._vigil = self._vigil or asyncio.create_task(self._watch_for_a_kubelet())

    async def _watch_for_a_kubelet(self) -> None:
        """Knock where nobody comes back: a kubelet that lost its stream waits for a new socket to appear."""
        try:
            with suppress(TimeoutError):
                async with timeout(self._patience):
                    await self._over.wait()
            if not self._over.is_set() and not self._streams:
                self._say(f"{self.resource}: no kubelet listens any more, registering again")
                await self._entrance.reregister()
        finally:
            self._vigil = None

    async def _prefer(self, request: wire.PreferredAllocationRequest) -> wire.PreferredAllocationResponse:
        answers = []
        for asked in request.container_requests:
            available, required = asked.available_device_ids, asked.must_include_device_ids
            ids = await self._allocator.prefer(self.resource, available, required, asked.allocation_size)
            answers.append(wire.ContainerPreferredAllocationResponse(tuple(ids)))
        return wire.PreferredAllocationResponse(tuple(answers))

    async def _allocate(self, request: wire.AllocateRequest) -> wire.AllocateResponse:
        grants = [
            await self._allocator.allocate(self.resource, asked.devices_ids)
            for asked in request.container_requests
        ]
        return wire.AllocateResponse(tuple(_granted(grant) for grant in grants))


def _granted(grant: Grant) -> wire.ContainerAllocateResponse:
    return wire.ContainerAllocateResponse(
        envs=grant.env,
        devices=tuple(wire.DeviceSpec(node.path, node.host, "rw") for node in grant.nodes),
        cdi_devices=tuple(wire.CDIDevice(name) for name in grant.cdi),
    )


def socket_paths(resource: str, folder: Path, registry: Path) -> tuple[Path, Path]:
    """Return where a resource's endpoint and registration are; a name too long for a path is cut."""
    slug = resource.rpartition("/")[2]
    room = LONGEST_PATH - max(len(os.fsencode(folder / ".sock")), len(os.fsencode(registry / "-reg.sock")))
    if len(slug) > room:
        digest = hashlib.sha256(resource.encode()).hexdigest()[:8]
        slug = f"{slug[: max(0, room - 9)]}-{digest}".removeprefix("-")
    return folder / f"{slug}.sock", registry / f"{slug}-reg.sock"
