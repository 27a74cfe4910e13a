"""Doors: sockets that are ours and sockets that are not, answers, and peers that do not behave."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from fairlead.errors import FairleadError, KubeletError, RefusedError
from fairlead.kubelet import messages as wire
from fairlead.kubelet import sockets
from fairlead.kubelet.proto import Message, encode
from fairlead.kubelet.sockets import Call, Door, Feed, Method
from tests.kubelet.kubelets import PATIENCE, Line, dial, rooms, until

ECHO, WATCH = "/test/Echo", "/test/Watch"
Answer = Callable[[wire.Claim], Awaitable[Message]]


@pytest.fixture
def place() -> Iterator[Path]:
    with rooms() as made:
        yield made.folder / "x.sock"


async def echo(claim: wire.Claim) -> Message:
    return claim


def door(place: Path, answer: Answer = echo, **more: Any) -> Door:
    return Door(place, [Call(ECHO, wire.Claim, answer)], **more)


@asynccontextmanager
async def opened(made: Door) -> AsyncIterator[Line]:
    await made.open()
    try:
        async with dial(made.path) as line:
            yield line
    finally:
        async with asyncio.timeout(PATIENCE):
            await made.close()


async def sound(line: Line) -> bool:
    """Tell whether a door serves."""
    return (await line.call(ECHO, wire.Claim("n"), wire.Claim)) == wire.Claim("n")


# The socket


def test_a_door_leaves_nothing_behind(place: Path) -> None:
    async def scenario() -> None:
        made = door(place)
        await made.close()  # never opened
        for _ in range(2):
            async with opened(made) as line:
                assert await sound(line)
            assert not os.path.lexists(place)
        await made.close()

    asyncio.run(scenario())


def test_a_stale_socket_makes_way(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(place))

    async def scenario() -> None:
        async with opened(door(place)) as line:
            assert await sound(line)

    asyncio.run(scenario())


def a_file(place: Path) -> None:
    place.write_text("precious", encoding="utf-8")


def a_folder(place: Path) -> None:
    place.mkdir()


def a_link_to_a_socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(place.with_name("other.sock")))
    place.symlink_to("other.sock")


@pytest.mark.parametrize("make", [a_file, a_folder, a_link_to_a_socket])
def test_what_is_no_socket_stays(place: Path, make: Callable[[Path], None]) -> None:
    make(place)
    before = os.lstat(place)
    with pytest.raises(KubeletError, match="no socket") as caught:
        asyncio.run(door(place).open())
    assert "folder" in caught.value.hint
    assert os.lstat(place).st_ino == before.st_ino


@pytest.mark.parametrize("name", ["missing/x.sock", "x" * 200 + ".sock"])
def test_a_socket_that_cannot_be(place: Path, name: str) -> None:
    with pytest.raises(KubeletError, match="cannot listen on"):
        asyncio.run(door(place.parent / name).open())


def test_who_came_later_keeps_the_socket(place: Path) -> None:
    async def scenario() -> None:
        old, new = door(place), door(place)
        await old.open()
        async with opened(new) as line:
            await old.close()
            assert await sound(line)

    asyncio.run(scenario())


# Answers


def test_answers() -> None:
    async def refuse(claim: wire.Claim) -> Message:
        if claim.name == "refused":
            raise RefusedError("g0 is held whole by default/x", "wait for it")
        if claim.name == "long":
            raise RefusedError("x" * 10_000)
        if claim.name == "away":
            raise FairleadError("the warden is away")
        raise KeyError(claim.name)

    expected = {
        "refused": (Status.FAILED_PRECONDITION, "g0 is held whole by default/x (wait for it)"),
        "long": (Status.FAILED_PRECONDITION, "x" * 1997 + "..."),
        "away": (Status.INTERNAL, "the warden is away"),
        "bug": (Status.INTERNAL, "/test/Echo failed: see the log of the agent"),
    }
    said: list[str] = []

    async def scenario(place: Path) -> None:
        async with opened(door(place, refuse, say=said.append)) as line:
            for name, answer in expected.items():
                with pytest.raises(GRPCError) as caught:
                    await line.call(ECHO, wire.Claim(name=name), wire.Claim)
                assert (caught.value.status, caught.value.message) == answer

    with rooms() as made:
        asyncio.run(scenario(made.folder / "x.sock"))
    assert said == ["/test/Echo failed: KeyError('bug')"]


def test_what_cannot_be_read_is_refused_and_the_next_call_served(place: Path) -> None:
    async def scenario() -> None:
        async with opened(door(place)) as line:
            for method, data, status in (
                (ECHO, b"\x0a\xff", Status.INVALID_ARGUMENT),
                (ECHO, b"\x0a\x02\xc3\x28", Status.INVALID_ARGUMENT),
                ("/test/Other", b"", Status.UNKNOWN),
            ):
                with pytest.raises(GRPCError) as caught:
                    await line.send(method, data)
                assert caught.value.status is status
                assert await sound(line)

    asyncio.run(scenario())


# Peers


def test_a_request_beyond_all_bounds_ends_its_connection_only(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        async with opened(door(place)) as line, dial(place) as other:
            with pytest.raises((StreamTerminatedError, OSError, GRPCError)):
                await other.send(ECHO, b"\x0a" + bytes(sockets.REQUEST_LIMIT + 100))
            assert await sound(line)

    asyncio.run(scenario())
    assert capfd.readouterr().err == ""


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
RUBBISH = {
    "nothing": b"",
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "half a preface": PREFACE[:10],
    "a frame of no known kind": PREFACE + bytes.fromhex("000000040000000000000000ee0000000000"),
    "a reset of nothing": PREFACE + bytes.fromhex("00000004000000000000000403000000000100000000"),
    "headers that are none": PREFACE + bytes.fromhex("000000040000000000000004010500000001ffffffff"),
    "a call without a method": PREFACE + bytes.fromhex("00000004000000000000000101050000000184"),
    "headers that are not ascii": PREFACE
    + bytes.fromhex("00000004000000000000000701050000000140016103c3a9c3"),
    "a farewell": PREFACE + bytes.fromhex("0000000400000000000000080700000000000000000000000000"),
    "zeros": PREFACE + bytes(1000),
}


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_harms_nobody_and_prints_nothing(
    place: Path, rubbish: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    faults: list[Any] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        async with opened(door(place)) as line:
            reader, writer = await asyncio.open_unix_connection(place)
            writer.write(rubbish)
            await writer.drain()
            await asyncio.sleep(0.02)
            assert await sound(line)
            writer.close()
            await asyncio.sleep(0)
            assert await sound(line)
            del reader

    asyncio.run(scenario())
    assert faults == []
    assert capfd.readouterr().err == ""


class Ticker:
    """A feed that counts who listens."""

    def __init__(self, item: bytes = b"") -> None:
        self.item = item
        self.listeners = 0

    async def items(self) -> AsyncGenerator[bytes, None]:
        self.listeners += 1
        try:
            while True:
                yield self.item
                await asyncio.sleep(0.001 if self.item else PATIENCE)
        finally:
            self.listeners -= 1


def test_a_feed_ends_with_its_peer(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        ticker = Ticker()
        made = Door(place, [Feed(WATCH, ticker.items)])
        async with opened(made):
            for leave in ("hang up", "cancel"):
                async with dial(place) as line, line.stream(WATCH) as stream:
                    await stream.send_message(b"", end=True)
                    assert await stream.recv_message() == b""
                    assert ticker.listeners == 1
                    await stream.cancel()
                    if leave == "cancel":
                        await until(lambda: ticker.listeners == 0)
                await until(lambda: ticker.listeners == 0)

    asyncio.run(scenario())
    assert capfd.readouterr().err == ""


async def deaf(place: Path) -> socket.socket:
    """Begin to listen to a feed with the library's own bytes, and never read what comes."""
    line = socket.socket(socket.AF_UNIX)
    line.setblocking(False)
    await asyncio.get_running_loop().sock_connect(line, str(place))
    head = bytes.fromhex("83")  # :method POST
    for name, value in (
        (b":path", WATCH.encode()),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    ):
        head += b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value
    settings = bytes.fromhex("00000604000000000000047fffffff")  # the largest window of a stream
    window = bytes.fromhex("0000040800000000007fff0000")  # and of the connection
    call = len(head).to_bytes(3, "big") + bytes.fromhex("010400000001") + head
    body = bytes.fromhex("0000050001000000010000000000")
    await asyncio.get_running_loop().sock_sendall(line, PREFACE + settings + window + call + body)
    return line


def test_a_peer_that_does_not_read_blocks_nobody_and_no_closing(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        ticker = Ticker(bytes(1 << 20))
        methods: list[Method] = [Feed(WATCH, ticker.items), Call(ECHO, wire.Claim, echo)]
        async with opened(Door(place, methods, grace=0.05)) as line:
            line_that_is_deaf = await deaf(place)
            await until(lambda: ticker.listeners == 1)
            await asyncio.sleep(0.05)
            assert await sound(line)
            async with line.stream(WATCH) as stream:
                await stream.send_message(b"", end=True)
                for _ in range(3):
                    assert await stream.recv_message() == ticker.item
                await stream.cancel()
            assert ticker.listeners >= 1
        assert ticker.listeners == 0
        line_that_is_deaf.close()

    asyncio.run(scenario())
    assert capfd.readouterr().err == ""


def test_a_peer_that_stops_reading_cancels_and_vanishes_leaves_no_task(place: Path) -> None:
    async def scenario() -> None:
        ticker = Ticker(bytes(1 << 20))
        async with opened(Door(place, [Feed(WATCH, ticker.items)])):
            before = len(asyncio.all_tasks())
            line = await deaf(place)
            await until(lambda: ticker.listeners == 1)
            await asyncio.sleep(0.05)
            line.send(bytes.fromhex("00000403000000000100000008"))
            await until(lambda: ticker.listeners == 0)
            line.close()
            await until(lambda: len(asyncio.all_tasks()) == before)

    asyncio.run(scenario())


# Closing


def test_a_call_under_way_is_answered_before_the_door_closes(place: Path) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def slow(claim: wire.Claim) -> Message:
        began.set()
        await go.wait()
        return claim

    async def scenario() -> None:
        made = door(place, slow)
        async with opened(made) as line:
            call = asyncio.create_task(line.call(ECHO, wire.Claim("n"), wire.Claim))
            await began.wait()
            closing = asyncio.create_task(made.close())
            await until(lambda: not place.exists())
            with pytest.raises(GRPCError, match="going away"):
                await line.call(ECHO, wire.Claim("late"), wire.Claim)
            go.set()
            assert await call == wire.Claim("n")
            await closing

    asyncio.run(scenario())


def test_a_call_that_never_ends_is_broken_off(place: Path) -> None:
    broken: list[str] = []

    async def endless(claim: wire.Claim) -> Message:
        try:
            await asyncio.sleep(PATIENCE * 10)
        except asyncio.CancelledError:
            broken.append(claim.name)
            raise
        return claim

    async def scenario() -> None:
        made = door(place, endless, grace=0.05)
        async with opened(made) as line:
            call = asyncio.create_task(line.send(ECHO, encode(wire.Claim(name="x"))))
            await asyncio.sleep(0.05)
            await made.close()
            with pytest.raises((StreamTerminatedError, GRPCError)):
                await call

    asyncio.run(scenario())
    assert broken == ["x"]


SILENT = """
import asyncio, sys
from pathlib import Path
from fairlead.kubelet import messages as wire
from fairlead.kubelet.sockets import Call, Door
from tests.kubelet.kubelets import dial

async def sleep(_):
    await asyncio.sleep(60)

async def main(path):
    door = Door(path, [Call("/test/Sleep", wire.Empty, sleep)], grace=0.01)
    await door.open()
    for leave in ("cancel", "vanish", "fail"):
        async with dial(path) as line:
            call = asyncio.create_task(line.send("/test/Sleep", b"" if leave != "fail" else b"\\x0a"))
            await asyncio.sleep(0.02)
            if leave == "cancel":
                call.cancel()
                await asyncio.wait([call])
        await asyncio.wait([call])
        call.cancelled() or call.exception()
    for rubbish in sys.argv[2:]:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(bytes.fromhex(rubbish))
        await asyncio.sleep(0.02)
        writer.close()
    await door.close()

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_peer_that_goes_away_is_no_news(place: Path) -> None:
    """Without anybody's logging: where a test runs, there is pytest's."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", SILENT, str(place), *map(bytes.hex, RUBBISH.values())],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
