"""The DRA plugin, as a kubelet sees it."""

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
from tests.kubelet.kubelets import PATIENCE, Line, Rooms, dial, info, notify, rooms

SERVICE = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
OLDER = "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin"
GPU = Prepared(("r",), "node-1", "gpu-0", ("fairlead.dev/claim=u1",), "share-1")
CPU = Prepared((), "node-1", "cpu-0", (), None)


@pytest.fixture
def place() -> Iterator[Rooms]:
    with rooms() as made:
        yield made
        assert made.sockets() == []


class Desk:
    """Prepares claims, and writes down when it began and ended what."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.everybody = asyncio.Event()

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
                self.everybody.set()
            await self.everybody.wait()
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
async def plugged(place: Rooms, desk: Preparer, **more: Any) -> AsyncIterator[Line]:
    plugin = ClaimPlugin(desk, place.folder, place.registry, **more)
    await plugin.open()
    try:
        async with dial(place.folder / "dra.sock") as line:
            yield line
    finally:
        async with timeout(PATIENCE):
            await plugin.close()


def asked(*claims: tuple[str, str]) -> wire.NodeResourcesRequest:
    return wire.NodeResourcesRequest(tuple(wire.Claim("ns", uid, name) for uid, name in claims))


async def prepare(
    line: Line, *claims: tuple[str, str], service: str = SERVICE
) -> dict[str, wire.NodePrepareResourceResponse]:
    method = f"{service}/NodePrepareResources"
    return dict((await line.call(method, asked(*claims), wire.NodePrepareResourcesResponse)).claims)


async def unprepare(
    line: Line, *claims: tuple[str, str], service: str = SERVICE
) -> dict[str, wire.NodeUnprepareResourceResponse]:
    method = f"{service}/NodeUnprepareResources"
    return dict((await line.call(method, asked(*claims), wire.NodeUnprepareResourcesResponse)).claims)


def test_a_kubelet_registers_it(place: Rooms) -> None:
    told: list[Registered] = []

    async def scenario() -> None:
        plugin = ClaimPlugin(Desk(), place.folder, place.registry, told.append)
        await plugin.open()
        found = await info(place.registry / "dra-reg.sock")
        versions = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
        endpoint = str(place.folder / "dra.sock")
        assert found == wire.PluginInfo("DRAPlugin", "fairlead.dev", endpoint, versions)
        await notify(place.registry / "dra-reg.sock", wire.RegistrationStatus(True))
        assert plugin.registered == Registered(True)
        await plugin.close()
        assert plugin.registered is None

    asyncio.run(scenario())
    assert told == [Registered(True)]


@pytest.mark.parametrize("service", [SERVICE, OLDER])
def test_claims_are_prepared_and_let_go(place: Rooms, service: str) -> None:
    async def scenario() -> None:
        async with plugged(place, Desk()) as line:
            found = await prepare(line, ("u1", "c"), service=service)
            assert found == {
                "u1": wire.NodePrepareResourceResponse(
                    (
                        wire.PreparedDevice(("r",), "node-1", "gpu-0", ("fairlead.dev/claim=u1",), "share-1"),
                        wire.PreparedDevice((), "node-1", "cpu-0", (), None),
                    )
                )
            }
            gone = await unprepare(line, ("u1", "c"), ("u9", "unknown"), service=service)
            assert gone == dict.fromkeys(("u1", "u9"), wire.NodeUnprepareResourceResponse())
            assert await prepare(line, service=service) == {}

    asyncio.run(scenario())


def test_a_claim_that_fails_spoils_no_other(place: Rooms) -> None:
    said: list[str] = []

    async def scenario() -> None:
        async with plugged(place, Desk(), say=said.append) as line:
            claims = (("u1", "c"), ("u2", "refused"), ("u3", "bug"), ("u4", "nameless"), ("u5", "c"))
            found = await prepare(line, *claims)
            assert {uid: answer.error for uid, answer in found.items()} == {
                "u1": "",
                "u2": "gpu-0 has 2 GiB left (ask for less)",
                "u3": "fairlead.dev failed on this claim: see the log of the agent",
                "u4": "FairleadError",
                "u5": "",
            }
            assert [len(answer.devices) for answer in found.values()] == [2, 0, 0, 0, 2]
            gone = await unprepare(line, *claims)
            assert [answer.error for answer in gone.values()] == ["", "the file is held", "", "", ""]

    asyncio.run(scenario())
    assert said == ["claim ns/bug: KeyError('u3')"]


def test_the_claims_of_a_request_are_prepared_at_once(place: Rooms) -> None:
    async def scenario() -> None:
        async with plugged(place, Desk()) as line:
            found = await prepare(line, ("u1", "together"), ("u2", "together"), ("u3", "together"))
            assert [answer.error for answer in found.values()] == ["", "", ""]

    asyncio.run(scenario())


def test_what_is_done_to_one_claim_is_done_in_turn(place: Rooms) -> None:
    desk = Desk()

    async def scenario() -> None:
        async with plugged(place, desk) as line, dial(place.folder / "dra.sock") as other:
            await asyncio.gather(
                prepare(line, ("u1", "c")),
                unprepare(line, ("u1", "c")),
                prepare(other, ("u1", "c"), ("u1", "c")),
                unprepare(other, ("u1", "c")),
            )

    asyncio.run(scenario())
    begun, ended = desk.log[::2], desk.log[1::2]
    assert len(begun) == len(ended) == 4
    assert [f"{deed.split()[0]}d u1" for deed in begun] == ended


def test_a_request_that_was_given_up_does_not_block_the_next(place: Rooms) -> None:
    desk = Desk()

    async def scenario() -> None:
        async with plugged(place, desk) as line:
            async with dial(place.folder / "dra.sock") as impatient:
                call = asyncio.create_task(prepare(impatient, ("u1", "together")))
                while not desk.log:
                    await asyncio.sleep(0.005)
                call.cancel()
                await asyncio.wait([call])
            assert (await prepare(line, ("u1", "c")))["u1"].error == ""

    asyncio.run(scenario())
