"""The services Identity and Node, which a kubelet calls on the driver's socket."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from fairlead import __version__
from fairlead.errors import LabError
from fairlead.kubelet.messages import Empty
from fairlead.kubelet.registration import Registered, Registrar
from fairlead.kubelet.sockets import GrpcServer, Method, UnaryMethod
from fairlead.lab.csi import messages as wire
from fairlead.lab.csi.images import Images
from fairlead.lab.csi.objects import DRIVER

IDENTITY: Final = "/csi.v1.Identity"
_NODE: Final = "/csi.v1.Node"
_ONLINE: Final = 1
"""Expansion while a volume is used."""
_CALLS: Final = (1, 2, 3)
"""STAGE_UNSTAGE_VOLUME, GET_VOLUME_STATS, EXPAND_VOLUME."""
_BYTES, _INODES = 1, 2
T = TypeVar("T")


def endpoint(kubelet: Path) -> Path:
    """Return the driver's socket in a kubelet's folder."""
    return kubelet / "plugins" / DRIVER / "csi.sock"


class NodeService:
    """The driver on one node: a kubelet finds it by its registration, and calls it."""

    def __init__(self, node: str, kubelet: Path, images: Images, say: Callable[[str], None]) -> None:
        self._node = node
        self._images = images
        self._say = say
        self._lock = asyncio.Lock()
        server = GrpcServer(endpoint(kubelet), self._methods(), say)
        registration = kubelet / "plugins_registry" / f"{DRIVER}-reg.sock"
        plugin = ("CSIPlugin", DRIVER, ("1.0.0",))
        self._registrar = Registrar(server, registration, plugin, self._on_registered, say)

    async def open(self, kubelet: Path) -> None:
        """Listen; a kubelet registers the driver, now and after each of its restarts."""
        for folder in (endpoint(kubelet).parent, kubelet / "plugins_registry"):
            folder.mkdir(parents=True, exist_ok=True)
        await self._registrar.open()

    async def close(self) -> None:
        """Unregister; what is mounted stays."""
        await self._registrar.close()

    def _on_registered(self, registered: Registered) -> None:
        self._say("registered" if registered.ok else f"not registered: {registered.error}")

    def _methods(self) -> tuple[Method, ...]:
        return (
            UnaryMethod(f"{IDENTITY}/GetPluginInfo", Empty, self._info),
            UnaryMethod(f"{IDENTITY}/GetPluginCapabilities", Empty, self._abilities),
            UnaryMethod(f"{IDENTITY}/Probe", Empty, self._probe),
            UnaryMethod(f"{_NODE}/NodeGetInfo", Empty, self._node_info),
            UnaryMethod(f"{_NODE}/NodeGetCapabilities", Empty, self._calls),
            UnaryMethod(f"{_NODE}/NodeStageVolume", wire.NodeStageVolumeRequest, self._stage),
            UnaryMethod(f"{_NODE}/NodeUnstageVolume", wire.NodeUnstageVolumeRequest, self._unstage),
            UnaryMethod(f"{_NODE}/NodePublishVolume", wire.NodePublishVolumeRequest, self._publish),
            UnaryMethod(f"{_NODE}/NodeUnpublishVolume", wire.NodeUnpublishVolumeRequest, self._unpublish),
            UnaryMethod(f"{_NODE}/NodeExpandVolume", wire.NodeExpandVolumeRequest, self._expand),
            UnaryMethod(f"{_NODE}/NodeGetVolumeStats", wire.NodeGetVolumeStatsRequest, self._stats),
        )

    async def _info(self, _: Empty) -> wire.GetPluginInfoResponse:
        return wire.GetPluginInfoResponse(DRIVER, __version__)

    async def _abilities(self, _: Empty) -> wire.GetPluginCapabilitiesResponse:
        online = wire.PluginCapability(wire.TypedCapability(_ONLINE))
        return wire.GetPluginCapabilitiesResponse((online,))

    async def _probe(self, _: Empty) -> wire.ProbeResponse:
        """Answer that the driver is ready once the kubelet has registered it."""
        registered = self._registrar.registered
        return wire.ProbeResponse(wire.BoolValue(registered is not None and registered.ok))

    async def _node_info(self, _: Empty) -> wire.NodeGetInfoResponse:
        return wire.NodeGetInfoResponse(self._node)

    async def _calls(self, _: Empty) -> wire.NodeGetCapabilitiesResponse:
        calls = (wire.NodeServiceCapability(wire.TypedCapability(number)) for number in _CALLS)
        return wire.NodeGetCapabilitiesResponse(tuple(calls))

    async def _stage(self, request: wire.NodeStageVolumeRequest) -> Empty:
        target = _path(request.staging_target_path)
        await self._do(lambda: self._images.mount(request.volume_id, target))
        return Empty()

    async def _unstage(self, request: wire.NodeUnstageVolumeRequest) -> Empty:
        target = _path(request.staging_target_path)
        await self._do(lambda: self._images.unmount(target))
        return Empty()

    async def _publish(self, request: wire.NodePublishVolumeRequest) -> Empty:
        source, target = _path(request.staging_target_path), _path(request.target_path)
        await self._do(lambda: self._images.bind(source, target, readonly=request.readonly))
        return Empty()

    async def _unpublish(self, request: wire.NodeUnpublishVolumeRequest) -> Empty:
        target = _path(request.target_path)
        await self._do(lambda: self._images.unmount(target))
        return Empty()

    async def _expand(self, request: wire.NodeExpandVolumeRequest) -> wire.NodeExpandVolumeResponse:
        mounted = _path(request.staging_target_path or request.volume_path)
        size = await self._do(lambda: self._images.grow(request.volume_id, mounted))
        if size < request.capacity_range.required_bytes:
            raise LabError(f"volume {request.volume_id} has {size} bytes, less than asked for")
        self._say(f"{request.volume_id}: grown to {size} bytes")
        return wire.NodeExpandVolumeResponse(size)

    async def _stats(self, request: wire.NodeGetVolumeStatsRequest) -> wire.NodeGetVolumeStatsResponse:
        try:
            found = os.statvfs(_path(request.volume_path))
        except OSError as error:
            raise LabError(f"{request.volume_path}: {error.strerror}") from None
        free, total, block = found.f_bavail, found.f_blocks, found.f_frsize
        used = total - found.f_bfree
        of_bytes = wire.VolumeUsage(free * block, total * block, used * block, _BYTES)
        files = found.f_files - found.f_ffree
        of_inodes = wire.VolumeUsage(found.f_favail, found.f_files, files, _INODES)
        return wire.NodeGetVolumeStatsResponse((of_bytes, of_inodes))

    async def _do(self, action: Callable[[], T]) -> T:
        """Perform one action at a time: a kubelet repeats calls whose answer it did not get."""
        async with self._lock:
            try:
                return await asyncio.to_thread(action)
            except (LabError, OSError) as error:
                self._say(str(error))
                raise error if isinstance(error, LabError) else LabError(str(error)) from None


def _path(text: str) -> Path:
    """Return a path of a request, which must be absolute."""
    if not text.startswith("/"):
        raise LabError(f"{text!r} is not an absolute path")
    return Path(text)
