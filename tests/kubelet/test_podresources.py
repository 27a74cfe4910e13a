"""The PodResources API: our resources in it, and kubelets that do not answer."""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import pytest

from fairlead.errors import FairleadError, KubeletError
from fairlead.kubelet import messages as wire
from fairlead.kubelet.podresources import (
    RESPONSE_LIMIT,
    ContainerClaimDevice,
    ContainerUnits,
    KubeletPod,
    PodReader,
    PodResourcesListing,
    own_resources,
    read_pod_resources,
)
from fairlead.kubelet.proto import Message, decode, encode
from fairlead.kubelet.sockets import GrpcServer, Method, StreamMethod, UnaryMethod
from tests.kubelet.kubelets import plugin_folders

LIST = "/v1.PodResourcesLister/List"
MEMORY = "fairlead.dev/gpu-mem"
SEEN = bytes.fromhex(
    "0acc010a017012016e1aa6010a0163121c0a14666169726c6561642e6465762f6770752d6d656d120467302d31121c0a14"
    "666169726c6561642e6465762f6770752d6d656d120467302d3212190a0b6f746865722e6465762f7812017912017a1a04"
    "0a0208031a02000522050a017810012a3f1202636c1a016e22270a050a036b3d76120c666169726c6561642e6465761a06"
    "6e6f64652d3122056770752d302a0173220d12056f746865721a017122017222040102ac022a150a066d656d6f72791080"
    "80808080201a040a020801"
)
"""The output of Google's own library: our units and others, claims likewise, processors and memory."""


def test_decodes_the_response_of_a_kubelet() -> None:
    assert own_resources(decode(wire.ListPodResourcesResponse, SEEN)) == PodResourcesListing(
        (ContainerUnits("n", "p", "c", MEMORY, ("g0-1", "g0-2")),),
        (ContainerClaimDevice("n", "p", "c", "cl", "fairlead.dev", "node-1", "gpu-0", "s"),),
    )


def listed(*entries: bytes) -> wire.ListPodResourcesResponse:
    return wire.ListPodResourcesResponse(
        (wire.PodResources("p", "n", (wire.ContainerResources("c", entries),)),)
    )


def entry(resource: str, *ids: str, more: str = "") -> bytes:
    return encode(wire.ContainerDevices(resource, ids)) + bytes.fromhex(more)


LONG = "x" * 200
ROWS: dict[str, tuple[Sequence[bytes], dict[str, tuple[str, ...]]]] = {
    "nothing": ((), {}),
    "one entry of many": ((entry(MEMORY, "a", "b"),), {MEMORY: ("a", "b")}),
    "a row": ([entry(MEMORY, unit) for unit in "abc"], {MEMORY: ("a", "b", "c")}),
    "a row in two": (
        (entry(MEMORY, "a"), entry("other.dev/x", "y"), entry("other.dev/x", "z"), entry(MEMORY, "b")),
        {MEMORY: ("a", "b")},
    ),
    "names that begin alike": (
        (entry(MEMORY, "a"), entry(f"{MEMORY}2", "b"), entry("fairlead.dev/gpu", "c"), entry(MEMORY, "d")),
        {MEMORY: ("a", "d"), f"{MEMORY}2": ("b",), "fairlead.dev/gpu": ("c",)},
    ),
    "long ids": ((entry(MEMORY, "a"), entry(MEMORY, LONG), entry(MEMORY, "b")), {MEMORY: ("a", LONG, "b")}),
    "an entry with more in it": (
        (entry(MEMORY, "a"), entry(MEMORY, "b", more="1a040a020803"), entry(MEMORY, "c", "d")),
        {MEMORY: ("a", "b", "c", "d")},
    ),
    "an entry without units": ((entry(MEMORY, "a"), entry(MEMORY), entry(MEMORY, "b")), {MEMORY: ("a", "b")}),
    "an id of nothing": ((entry(MEMORY, "a"), entry(MEMORY, "")), {MEMORY: ("a", "")}),
    "another's": ((entry("nvidia.com/gpu", "a"), entry("fairlead.device/x", "b")), {}),
}


@pytest.mark.parametrize(("entries", "expected"), ROWS.values(), ids=ROWS)
def test_units_are_grouped_by_resource(
    entries: Sequence[bytes], expected: dict[str, tuple[str, ...]]
) -> None:
    units = own_resources(listed(*entries)).devices
    assert {held.resource: held.ids for held in units} == expected
    assert {(held.namespace, held.pod, held.container) for held in units} <= {("n", "p", "c")}


@pytest.mark.parametrize("bad", [b"\x0a\xff", entry(MEMORY, "a")[:-1], b"\x0a\x02\xc3\x28", b"\x00\x00"])
def test_a_malformed_entry_is_refused(bad: bytes) -> None:
    for entries in ((bad,), (entry(MEMORY, "a"), bad)):
        with pytest.raises(ValueError):  # noqa: PT011  # a caller may rely on the type alone
            own_resources(listed(*entries))


# A kubelet that is asked


@pytest.fixture
def place() -> Iterator[Path]:
    with plugin_folders() as made:
        yield made.folder / "kubelet.sock"


@asynccontextmanager
async def serving(place: Path, method: Method) -> AsyncIterator[None]:
    server = GrpcServer(place, [method], grace=0.05)
    await server.open()
    try:
        yield
    finally:
        await server.close()


def test_lists_all_pods_also_pods_that_hold_nothing(place: Path) -> None:
    rich = wire.ContainerResources("c", (entry(MEMORY, "a"), entry(MEMORY, "b"), entry("other.dev/x", "y")))
    pods = (wire.PodResources("p", "n", (rich, wire.ContainerResources("d"))), wire.PodResources("q", "n"))

    async def give(_: wire.Empty) -> Message:
        return wire.ListPodResourcesResponse(pods)

    async def play() -> list[KubeletPod]:
        async with serving(place, UnaryMethod(LIST, wire.Empty, give)):
            return await PodReader(place).read()

    assert asyncio.run(play()) == [
        KubeletPod("n", "p", {"c": frozenset({MEMORY, "other.dev/x"}), "d": frozenset()}),
        KubeletPod("n", "q", {}),
    ]


def test_only_containers_that_changed_are_decoded_again(place: Path) -> None:
    def response(holding: int, *others: str) -> wire.EncodedListResponse:
        """Return a kubelet's response with a pod of ten containers, of which the first few hold something."""
        rows = [(f"c{at}", (entry(MEMORY, f"g0-{at}"),) if at < holding else ()) for at in range(10)]
        ten = wire.PodResources("ten", "n", tuple(wire.ContainerResources(*row) for row in rows))
        one = (wire.ContainerResources("c"),)
        pods = (ten, *(wire.PodResources(name, "n", one) for name in others))
        return decode(wire.EncodedListResponse, encode(wire.ListPodResourcesResponse(pods)))

    reader = PodReader(place)
    reader.decode_pods(response(0, "a"))
    assert reader.decoded == 11
    for holding in range(1, 11):
        ten, _ = reader.decode_pods(response(holding, "a"))
        assert reader.decoded == 11 + holding
        assert [name for name, held in ten.held.items() if held] == [f"c{at}" for at in range(holding)]
    reader.decode_pods(response(10))
    assert reader.decode_pods(response(10, "a"))[1] == KubeletPod("n", "a", {"c": frozenset()})
    assert reader.decoded == 22, "a pod that ended is dropped"


def test_a_truncated_pod_is_an_error(place: Path) -> None:
    async def give(_: wire.Empty) -> Message:
        return wire.EncodedListResponse((b"\x0a\x05cut",))

    async def play() -> None:
        async with serving(place, UnaryMethod(LIST, wire.Empty, give)):
            await PodReader(place).read()

    with pytest.raises(KubeletError, match="cut off"):
        asyncio.run(play())


def test_reads_from_a_kubelet(place: Path) -> None:
    units = [f"g0-{number}" for number in range(150_000)]
    first = entry(MEMORY, "")[:-1]
    rows = (first + bytes((len(unit),)) + unit.encode() for unit in units)
    answer = listed(*rows, entry("other.dev/x", "y"))

    async def give(_: wire.Empty) -> Message:
        return answer

    async def scenario() -> None:
        async with serving(place, UnaryMethod(LIST, wire.Empty, give)):
            listing = await read_pod_resources(place, timeout=30)
            assert listing == PodResourcesListing((ContainerUnits("n", "p", "c", MEMORY, tuple(units)),), ())
            other = await read_pod_resources(place, timeout=30, prefix="other.dev/")
            assert other == PodResourcesListing((ContainerUnits("n", "p", "c", "other.dev/x", ("y",)),), ())

    asyncio.run(scenario())


def test_a_socket_without_a_kubelet_is_an_error(place: Path) -> None:
    with pytest.raises(KubeletError, match="No such file") as caught:
        asyncio.run(read_pod_resources(place))
    assert caught.value.exit_code == 1
    assert "kubelet" in caught.value.hint
    with closing(socket.socket(socket.AF_UNIX)) as stale:
        stale.bind(str(place))
    with pytest.raises(KubeletError, match="refused"):
        asyncio.run(read_pod_resources(place))
    place.unlink()
    place.write_text("a file", encoding="utf-8")
    with pytest.raises(KubeletError, match=str(place)):
        asyncio.run(read_pod_resources(place))


async def refuse(_: wire.Empty) -> Message:
    raise FairleadError("not today")


async def sleep(_: wire.Empty) -> Message:
    await asyncio.sleep(60)
    return wire.Empty()


async def rubbish() -> AsyncGenerator[bytes, None]:
    yield b"\x0a\xff\xff"


async def too_much() -> AsyncGenerator[bytes, None]:
    yield bytes(RESPONSE_LIMIT + 1000)


async def nothing() -> AsyncGenerator[bytes, None]:
    for item in list[bytes]():
        yield item


ANSWERS = {
    "a refusal": (UnaryMethod(LIST, wire.Empty, refuse), "INTERNAL: not today"),
    "nothing in time": (UnaryMethod(LIST, wire.Empty, sleep), "no answer within"),
    "another service": (UnaryMethod("/v1.Other/List", wire.Empty, refuse), "UNKNOWN"),
    "rubbish": (StreamMethod(LIST, rubbish), "cut off"),
    "too much": (StreamMethod(LIST, too_much), f"more than {RESPONSE_LIMIT} bytes"),
    "nothing": (StreamMethod(LIST, nothing), "no answer"),
}


@pytest.mark.parametrize(("method", "why"), ANSWERS.values(), ids=ANSWERS)
def test_an_invalid_answer_is_an_error(place: Path, method: Method, why: str) -> None:
    async def scenario() -> None:
        async with serving(place, method):
            timeout = 0.1 if why == "no answer within" else 30.0
            with pytest.raises(KubeletError, match=why):
                await read_pod_resources(place, timeout)
            current = asyncio.current_task()
            assert current is not None
            await asyncio.sleep(0)  # a leftover cancellation would be raised here
            assert not current.cancelled()
            if sys.version_info >= (3, 11):
                assert current.cancelling() == 0

    asyncio.run(scenario())


LINES: dict[str, Callable[[bytes], bytes]] = {
    "another protocol": lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "nothing": lambda _: b"",
    "what it was sent": lambda data: data,
    "zeros": lambda _: bytes(10_000),
}


@pytest.mark.parametrize("reply", LINES.values(), ids=LINES)
def test_a_peer_with_another_protocol_is_an_error(
    place: Path, reply: Callable[[bytes], bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(await reader.read(1000)))
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        served.set()

    served = asyncio.Event()

    async def scenario() -> None:
        server = await asyncio.start_unix_server(serve, place)
        with pytest.raises(KubeletError):
            await read_pod_resources(place, timeout=30)
        await served.wait()
        server.close()

    asyncio.run(scenario())
    assert capfd.readouterr().err == ""
