"""The DRA plugin, called by a kubelet."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlead.compat.aio import timeout
from fairlead.errors import AllocationRefusedError, FairleadError
from fairlead.kubelet import messages as wire
from fairlead.kubelet.claims import ClaimPlugin, KubeletClaim, Prepared, Preparer
from fairlead.kubelet.registration import Registered
from tests.kubelet.kubelets import PATIENCE, Connection, PluginFolders, dial, info, notify, plugin_folders

SERVICE = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
OLDER = "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"
GPU = Prepared(("r",), "node-1", "gpu-0", ("fairlead.dev/claim=u1",), "share-1")
CPU = Prepared((), "node-1", "cpu-0", (), None)


@pytest.fixture
def place() -> Iterator[PluginFolders]:
    with plugin_folders() as made:
        yield made
        assert made.sockets() == []


class FakePreparer:
    """Prepares claims, and records when each operation began and ended."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.all_started = asyncio.Event()

    async def prepare(self, claim: KubeletClaim) -> Sequence[Prepared]:
        self.log.append(f"prepare {claim.uid}")
        if claim.name == "refused":
            raise AllocationRefusedError("gpu-0 has 2 GiB left", "ask for less")
        if claim.name == "nameless":
            raise FairleadError("")
        if claim.name == "bug":
            raise KeyError(claim.uid)
        if claim.name == "together":
            if len(self.log) == 3:
                self.all_started.set()
            await self.all_started.wait()
        await asyncio.sleep(0.01)
        self.log.append(f"prepared {claim.uid}")
        return [GPU, CPU]

    async def unprepare(self, claim: KubeletClaim) -> None:
        self.log.append(f"unprepare {claim.uid}")
        if claim.name == "refused":
            raise AllocationRefusedError("the file is held")
        await asyncio.sleep(0)
        self.log.append(f"unprepared {claim.uid}")


@asynccontextmanager
async def plugged(place: PluginFolders, preparer: Preparer, **more: Any) -> AsyncIterator[Connection]:
    plugin = ClaimPlugin(preparer, place.folder, place.registry, **more)
    await plugin.open()
    try:
        async with dial(place.folder / "dra.sock") as connection:
            yield connection
    finally:
        async with timeout(PATIENCE):
            await plugin.close()


def request(*claims: tuple[str, str]) -> wire.NodeResourcesRequest:
    return wire.NodeResourcesRequest(tuple(wire.Claim("ns", uid, name) for uid, name in claims))


async def prepare(
    connection: Connection, *claims: tuple[str, str], service: str = SERVICE
) -> dict[str, wire.NodePrepareResourceResponse]:
    method = f"{service}/NodePrepareResources"
    return dict((await connection.call(method, request(*claims), wire.NodePrepareResourcesResponse)).claims)


async def unprepare(
    connection: Connection, *claims: tuple[str, str], service: str = SERVICE
) -> dict[str, wire.NodeUnprepareResourceResponse]:
    method = f"{service}/NodeUnprepareResources"
    return dict((await connection.call(method, request(*claims), wire.NodeUnprepareResourcesResponse)).claims)


def test_a_kubelet_registers_it(place: PluginFolders) -> None:
    statuses: list[Registered] = []

    async def scenario() -> None:
        plugin = ClaimPlugin(FakePreparer(), place.folder, place.registry, statuses.append)
        await plugin.open()
        results = await info(place.registry / "dra-reg.sock")
        versions = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
        endpoint = str(place.folder / "dra.sock")
        assert results == wire.PluginInfo("DRAPlugin", "fairlead.dev", endpoint, versions)
        await notify(place.registry / "dra-reg.sock", wire.RegistrationStatus(True))
        assert plugin.registered == Registered(True)
        await plugin.close()
        assert plugin.registered is None

    asyncio.run(scenario())
    assert statuses == [Registered(True)]


@pytest.mark.parametrize("service", [SERVICE, OLDER])
def test_claims_are_prepared_and_unprepared(place: PluginFolders, service: str) -> None:
    async def scenario() -> None:
        async with plugged(place, FakePreparer()) as connection:
            results = await prepare(connection, ("u1", "c"), service=service)
            assert results == {
                "u1": wire.NodePrepareResourceResponse(
                    (
                        wire.PreparedDevice(("r",), "node-1", "gpu-0", ("fairlead.dev/claim=u1",), "share-1"),
                        wire.PreparedDevice((), "node-1", "cpu-0", (), None),
                    )
                )
            }
            released = await unprepare(connection, ("u1", "c"), ("u9", "unknown"), service=service)
            assert released == dict.fromkeys(("u1", "u9"), wire.NodeUnprepareResourceResponse())
            assert await prepare(connection, service=service) == {}

    asyncio.run(scenario())


def test_a_claim_that_fails_does_not_fail_others(place: PluginFolders) -> None:
    lines: list[str] = []

    async def scenario() -> None:
        async with plugged(place, FakePreparer(), say=lines.append) as connection:
            claims = (("u1", "c"), ("u2", "refused"), ("u3", "bug"), ("u4", "nameless"), ("u5", "c"))
            results = await prepare(connection, *claims)
            assert {uid: answer.error for uid, answer in results.items()} == {
                "u1": "",
                "u2": "gpu-0 has 2 GiB left (ask for less)",
                "u3": "fairlead.dev failed on this claim: see the log of the agent",
                "u4": "FairleadError",
                "u5": "",
            }
            assert [len(answer.devices) for answer in results.values()] == [2, 0, 0, 0, 2]
            released = await unprepare(connection, *claims)
            assert [answer.error for answer in released.values()] == ["", "the file is held", "", "", ""]

    asyncio.run(scenario())
    assert lines == ["claim ns/bug: KeyError('u3')"]


def test_the_claims_of_a_request_are_prepared_concurrently(place: PluginFolders) -> None:
    async def scenario() -> None:
        async with plugged(place, FakePreparer()) as connection:
            results = await prepare(connection, ("u1", "together"), ("u2", "together"), ("u3", "together"))
            assert [answer.error for answer in results.values()] == ["", "", ""]

    asyncio.run(scenario())


def test_operations_on_one_claim_run_one_after_the_other(place: PluginFolders) -> None:
    preparer = FakePreparer()

    async def scenario() -> None:
        async with plugged(place, preparer) as connection, dial(place.folder / "dra.sock") as other:
            await asyncio.gather(
                prepare(connection, ("u1", "c")),
                unprepare(connection, ("u1", "c")),
                prepare(other, ("u1", "c"), ("u1", "c")),
                unprepare(other, ("u1", "c")),
            )

    asyncio.run(scenario())
    begun, ended = preparer.log[::2], preparer.log[1::2]
    assert len(begun) == len(ended) == 4
    assert [f"{deed.split()[0]}d u1" for deed in begun] == ended


def test_an_abandoned_request_does_not_block_the_next(place: PluginFolders) -> None:
    preparer = FakePreparer()

    async def scenario() -> None:
        async with plugged(place, preparer) as connection:
            async with dial(place.folder / "dra.sock") as impatient:
                call = asyncio.create_task(prepare(impatient, ("u1", "together")))
                while not preparer.log:
                    await asyncio.sleep(0.005)
                call.cancel()
                await asyncio.wait([call])
            assert (await prepare(connection, ("u1", "c")))["u1"].error == ""

    asyncio.run(scenario())
