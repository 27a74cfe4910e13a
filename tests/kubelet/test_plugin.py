"""The device plugin, called by a kubelet."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from fairlead.compat.aio import timeout
from fairlead.errors import AllocationRefusedError, KubeletError
from fairlead.kubelet import messages as wire
from fairlead.kubelet.plugin import LIST_LIMIT, DevicePlugin, encoded_size, socket_paths
from fairlead.kubelet.registration import Registered
from fairlead.offer import Block, DeviceNode, Grant, Offer
from tests.kubelet.kubelets import (
    DEVICES,
    PATIENCE,
    SMALLEST_WINDOW,
    PluginFolders,
    dial,
    ids,
    info,
    notify,
    plugin_folders,
    until,
)

MEMORY = "fairlead.dev/gpu-mem"


@pytest.fixture
def place() -> Iterator[PluginFolders]:
    with plugin_folders() as made:
        yield made
        assert made.sockets() == []


class FakeAllocator:
    """Allocates what is requested, the first units first."""

    async def prefer(
        self, resource: str, available: Sequence[str], required: Sequence[str], size: int
    ) -> Sequence[str]:
        more = [unit for unit in available if unit not in required]
        return [*required, *more][:size]

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        if "g0-13" in ids:
            raise AllocationRefusedError("g0 is held whole by default/x")
        return Grant(
            {"UNITS": ",".join(ids)},
            (DeviceNode("/dev/nvidia0", "/dev/nvidia3"), DeviceNode("/dev/nvidiactl", "/dev/nvidiactl")),
            ("fairlead.dev/gpu=g0",),
        )


def memory(count: int, *, healthy: bool = True) -> Offer:
    return Offer(MEMORY, (Block("pci-0", "g0", count=count, healthy=healthy, many=True),))


@asynccontextmanager
async def plugged(place: PluginFolders, offer: Offer, **more: Any) -> AsyncIterator[DevicePlugin]:
    plugin = DevicePlugin(offer.resource, FakeAllocator(), place.folder, place.registry, **more)
    await plugin.open(offer)
    try:
        yield plugin
    finally:
        async with timeout(PATIENCE):
            await plugin.close()


# Registration


def test_a_kubelet_registers_it(place: PluginFolders) -> None:
    statuses: list[Registered] = []

    async def scenario() -> None:
        async with plugged(place, memory(3), on_status=statuses.append) as plugin:
            assert place.sockets() == ["gpu-mem-reg.sock", "gpu-mem.sock"]
            registration = place.registry / "gpu-mem-reg.sock"
            plugin_info = await info(registration)
            endpoint = str(place.folder / "gpu-mem.sock")
            assert plugin_info == wire.PluginInfo("DevicePlugin", MEMORY, endpoint, ("v1beta1",))
            assert plugin.registered is None
            await notify(registration, wire.RegistrationStatus(error="no handler"))
            await notify(registration, wire.RegistrationStatus(plugin_registered=True))
            assert plugin.registered == Registered(True)
        assert plugin.registered is None

    asyncio.run(scenario())
    assert statuses == [Registered(False, "no handler"), Registered(True)]


def test_the_endpoint_exists_before_its_registration(place: PluginFolders) -> None:
    async def watch() -> None:
        registration = place.registry / "gpu-mem-reg.sock"
        async with timeout(PATIENCE):
            while not registration.exists():
                await asyncio.sleep(0)
        async with dial((await info(registration)).endpoint) as connection:
            await connection.call(f"{DEVICES}/GetDevicePluginOptions", wire.Empty(), wire.Empty)

    async def scenario() -> None:
        watching = asyncio.create_task(watch())
        async with plugged(place, memory(3)):
            await watching

    asyncio.run(scenario())


def test_without_a_registration_there_is_no_endpoint(place: PluginFolders) -> None:
    async def scenario() -> None:
        plugin = DevicePlugin(MEMORY, FakeAllocator(), place.folder, place.registry / "missing")
        with pytest.raises(KubeletError, match="missing"):
            await plugin.open(memory(1))
        assert place.sockets() == []
        await plugin.close()

    asyncio.run(scenario())


NAMES = {
    "short": ("fairlead.dev/gpu-mem", 20, "gpu-mem"),
    "without a domain": ("gpu-mem", 20, "gpu-mem"),
    "as long as there is room": ("fairlead.dev/" + "x" * 40, 57, "x" * 40),
    "longer": ("fairlead.dev/" + "x" * 41, 57, "x" * 31 + "-9548b947"),
    "no room for a name": ("fairlead.dev/gpu-memory", 89, "b8a729ef"),
}


@pytest.mark.parametrize(("resource", "length", "slug"), NAMES.values(), ids=NAMES)
def test_sockets_are_named_after_the_resource(resource: str, length: int, slug: str) -> None:
    registry = Path("/" + "d" * (length - 1))
    endpoint, registration = socket_paths(resource, Path("/p"), registry)
    assert (endpoint, registration) == (Path(f"/p/{slug}.sock"), registry / f"{slug}-reg.sock")
    assert len(str(registration)) <= 107


# The list


def test_every_change_is_sent_and_nothing_else(place: PluginFolders) -> None:
    async def scenario() -> None:
        async with (
            plugged(place, memory(2)) as plugin,
            dial(place.folder / "gpu-mem.sock") as connection,
            connection.lists() as lists,
        ):
            assert await lists.next() == [("g0-0", "Healthy"), ("g0-1", "Healthy")]
            plugin.offer(memory(2))
            # Another answer on the same connection: a list would have arrived before it.
            await connection.call(f"{DEVICES}/GetDevicePluginOptions", wire.Empty(), wire.Empty)
            plugin.offer(memory(1, healthy=False))
            assert await lists.next() == [("g0-0", "Unhealthy")]
            plugin.offer(Offer(MEMORY))
            assert await lists.next() == []

    asyncio.run(scenario())


def test_a_slow_reader_gets_the_latest_list_and_blocks_no_other(place: PluginFolders) -> None:
    endpoint = place.folder / "gpu-mem.sock"

    async def scenario() -> None:
        async with (
            plugged(place, memory(20_000)) as plugin,
            dial(endpoint, window=SMALLEST_WINDOW) as one,
            dial(endpoint) as other,
            one.lists() as slow,
            other.lists() as quick,
        ):
            assert len(ids(await quick.next())) == 20_000
            for count in range(1, 100):
                plugin.offer(memory(count))
                assert len(ids(await quick.next())) == count
            assert len(ids(await slow.next())) == 20_000
            assert len(ids(await slow.next())) == 99

    asyncio.run(scenario())


def test_a_kubelet_that_reconnects_gets_the_list_at_once(place: PluginFolders) -> None:
    async def scenario() -> None:
        async with plugged(place, memory(2)) as plugin:
            async with dial(place.folder / "gpu-mem.sock") as connection, connection.lists() as lists:
                assert len(ids(await lists.next())) == 2
                assert plugin.has_watcher
            await until(lambda: not plugin.has_watcher)
            plugin.offer(memory(5))
            async with dial(place.folder / "gpu-mem.sock") as connection, connection.lists() as lists:
                assert len(ids(await lists.next())) == 5

    asyncio.run(scenario())


def test_closing_ends_the_streams(place: PluginFolders) -> None:
    async def scenario() -> None:
        async with plugged(place, memory(2)) as plugin, dial(place.folder / "gpu-mem.sock") as connection:
            async with connection.lists() as lists:
                await lists.next()
                end = asyncio.create_task(lists.next())
                await plugin.close()
                assert await end is None
            assert not plugin.has_watcher
            plugin.offer(memory(3))  # without a reader, nothing breaks

    asyncio.run(scenario())


def test_a_list_that_is_too_long_is_not_sent(place: PluginFolders) -> None:
    long = memory(250_000)
    assert encoded_size(long) > LIST_LIMIT

    async def scenario() -> None:
        with pytest.raises(ValueError, match="offer fewer"):
            await DevicePlugin(MEMORY, FakeAllocator(), place.folder, place.registry).open(long)
        assert place.sockets() == []
        async with (
            plugged(place, memory(2)) as plugin,
            dial(place.folder / "gpu-mem.sock") as connection,
            connection.lists() as lists,
        ):
            await lists.next()
            with pytest.raises(ValueError, match="offer fewer"):
                plugin.offer(long)
            plugin.offer(memory(1))
            assert ids(await lists.next()) == ["g0-0"]

    asyncio.run(scenario())


# A stream that broke


def test_without_a_watching_kubelet_it_registers_again(place: PluginFolders) -> None:
    lines: list[str] = []

    async def scenario() -> None:
        registration = place.registry / "gpu-mem-reg.sock"
        async with plugged(place, memory(2), watch_timeout=0.02, say=lines.append):
            before = registration.stat()
            async with dial(place.folder / "gpu-mem.sock") as connection, connection.lists() as lists:
                await lists.next()
            await until(lambda: lines)
            await until(registration.exists)
            assert (before.st_ino, before.st_ctime_ns) != (
                registration.stat().st_ino,
                registration.stat().st_ctime_ns,
            )
            assert (await info(registration)).name == MEMORY

    asyncio.run(scenario())
    assert lines == [f"{MEMORY}: no kubelet watches the list any more, registering again"]


def test_with_a_kubelet_that_reconnected_it_does_not(place: PluginFolders) -> None:
    lines: list[str] = []

    async def reconnected(pause: float) -> bool:
        """Return whether the kubelet was back in time: a busy machine may be too slow for that."""
        endpoint = place.folder / "gpu-mem.sock"
        lines.clear()
        async with plugged(place, memory(2), watch_timeout=pause, say=lines.append) as plugin:
            async with dial(endpoint) as connection, connection.lists() as lists:
                await lists.next()
                tasks = len(asyncio.all_tasks())
                left = time.monotonic()
            await until(lambda: not plugin.has_watcher)
            async with dial(endpoint) as connection, connection.lists() as lists:
                await lists.next()
                in_time = time.monotonic() < left + pause
                # One more task waits to register again: when it has ended, it has decided.
                await until(lambda: len(asyncio.all_tasks()) == tasks)
        return in_time

    assert any(asyncio.run(reconnected(0.05 * 2**count)) for count in range(8))
    assert lines == []


def test_closing_while_it_registers_again_leaves_no_socket(place: PluginFolders) -> None:
    async def scenario() -> None:
        for wait in range(12):
            async with plugged(place, memory(2), watch_timeout=0.001) as plugin:
                async with dial(place.folder / "gpu-mem.sock") as connection, connection.lists() as lists:
                    await lists.next()
                await until(lambda plugin=plugin: not plugin.has_watcher)
                for _ in range(wait):
                    await asyncio.sleep(0.0003)
            assert place.sockets() == []

    asyncio.run(scenario())


# Allocation


def test_options_and_preference(place: PluginFolders) -> None:
    many = tuple(f"g0-{number}" for number in range(150_000))
    request = wire.PreferredAllocationRequest((wire.ContainerPreferredAllocationRequest(many, ("g0-7",), 3),))
    expected = wire.PreferredAllocationResponse(
        (wire.ContainerPreferredAllocationResponse(("g0-7", "g0-0", "g0-1")),)
    )

    async def scenario() -> None:
        async with plugged(place, memory(2)), dial(place.folder / "gpu-mem.sock") as connection:
            options = await connection.call(
                f"{DEVICES}/GetDevicePluginOptions", wire.Empty(), wire.DevicePluginOptions
            )
            assert options == wire.DevicePluginOptions(False, True)
            method = f"{DEVICES}/GetPreferredAllocation"
            assert await connection.call(method, request, wire.PreferredAllocationResponse) == expected

    asyncio.run(scenario())


def test_a_container_receives_its_grant(place: PluginFolders) -> None:
    def request(*ids: str) -> wire.AllocateRequest:
        return wire.AllocateRequest((wire.ContainerAllocateRequest(ids),))

    granted = wire.ContainerAllocateResponse(
        {"UNITS": "g0-1,g0-2"},
        (
            wire.DeviceSpec("/dev/nvidia0", "/dev/nvidia3", "rw"),
            wire.DeviceSpec("/dev/nvidiactl", "/dev/nvidiactl", "rw"),
        ),
        (wire.CDIDevice("fairlead.dev/gpu=g0"),),
    )

    async def scenario() -> None:
        async with plugged(place, memory(2)), dial(place.folder / "gpu-mem.sock") as connection:
            method = f"{DEVICES}/Allocate"
            answer = await connection.call(method, request("g0-1", "g0-2"), wire.AllocateResponse)
            assert answer == wire.AllocateResponse((granted,))
            with pytest.raises(GRPCError) as caught:
                await connection.call(method, request("g0-13"), wire.AllocateResponse)
            assert caught.value.status is Status.FAILED_PRECONDITION
            assert caught.value.message == "g0 is held whole by default/x"

    asyncio.run(scenario())
