"""Performs the steps of volumes: what provisioner and resizer do beside another driver."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import Kind
from fairlead.errors import AlreadyExistsError, ClusterError, ConflictError, LabError, NotFoundError
from fairlead.lab.csi import objects
from fairlead.lab.csi.images import Images
from fairlead.lab.csi.objects import CLAIMS, CLASSES, DRIVERS, VOLUMES, Json, VolumeSteps
from fairlead.units import Bytes

_POLL: Final = 0.5
_AFTER_ERROR: Final = 2.0


class VolumeController:
    """Makes, enlarges and removes volumes, until it is cancelled."""

    def __init__(self, client: Client, images: Images, say: Callable[[str], None]) -> None:
        self._client = client
        self._images = images
        self._say = say

    async def run(self) -> None:
        """Install the driver's objects, then follow claims; an API server that is away is asked again."""
        while True:
            try:
                await self._install()
                while True:
                    with suppress(ConflictError, NotFoundError):  # it has changed: the next look sees how
                        await self.step()
                    await asyncio.sleep(_POLL)
            except (ClusterError, LabError, OSError) as error:
                self._say(str(error))
                await asyncio.sleep(_AFTER_ERROR)

    async def step(self) -> VolumeSteps:
        """Look once, and do what is due."""
        classes = {each["metadata"]["name"]: each for each in await self._list(CLASSES)}
        steps = objects.next_steps(await self._list(CLAIMS), await self._list(VOLUMES), classes)
        for volume in steps.create:
            await self._create(volume)
        for claim, size in steps.enlarge:
            await self._enlarge(claim, size)
        for name in steps.remove:
            if await asyncio.to_thread(self._images.remove, name):
                await self._client.delete(VOLUMES.raw(), name)
                self._say(f"{name}: removed")
        return steps

    async def _install(self) -> None:
        for kind, made in ((DRIVERS, objects.csi_driver()), (CLASSES, objects.storage_class())):
            with suppress(AlreadyExistsError):
                await self._client.create(kind.raw(), made)

    async def _create(self, volume: Json) -> None:
        name, size = volume["metadata"]["name"], volume["spec"]["capacity"]["storage"]
        await asyncio.to_thread(self._images.create, name, objects.size_of(size))
        await self._client.create(VOLUMES.raw(), volume)
        self._say(f"{name}: made, {size}")

    async def _enlarge(self, claim: Json, size: Bytes) -> None:
        name, meta = objects.volume_name(claim), claim["metadata"]
        await asyncio.to_thread(self._images.enlarge, name, size)
        asked = claim["spec"]["resources"]["requests"]["storage"]
        await self._client.patch(VOLUMES.raw(), name, {"spec": {"capacity": {"storage": asked}}})
        status = objects.resize_pending(asked, claim["status"].get("conditions") or ())
        await self._client.patch_status(CLAIMS.raw(), meta["name"], status, meta["namespace"])
        self._say(f"{name}: image enlarged, {asked}")

    async def _list(self, kind: Kind[Any]) -> list[Json]:
        return [each.document() for each in (await self._client.list(kind.raw())).items]
