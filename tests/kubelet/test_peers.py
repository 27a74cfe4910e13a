"""Servers and misbehaving peers: other peers are not affected, and nothing is printed."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from grpclib.exceptions import GRPCError, StreamTerminatedError

from fairlead.kubelet import messages as wire
from fairlead.kubelet import sockets
from fairlead.kubelet.sockets import GrpcServer, Method, StreamMethod, UnaryMethod
from tests.kubelet.kubelets import PATIENCE, dial, plugin_folders, unread, untaken, until
from tests.kubelet.sockets import ECHO, WATCH, answers, connected, echo, echo_server


@pytest.fixture
def place() -> Iterator[Path]:
    with plugin_folders() as made:
        yield made.folder / "x.sock"


def test_a_request_over_the_limit_ends_its_connection_only(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        async with connected(echo_server(place)) as connection, dial(place) as other:
            with pytest.raises((StreamTerminatedError, OSError, GRPCError)):
                await other.send(ECHO, b"\x0a" + bytes(sockets.REQUEST_LIMIT + 100))
            assert await answers(connection)

    asyncio.run(scenario())
    assert capfd.readouterr().err == ""


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INVALID = {
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


@pytest.mark.parametrize("invalid", INVALID.values(), ids=INVALID)
def test_invalid_bytes_affect_no_other_peer_and_print_nothing(
    place: Path, invalid: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    faults: list[Any] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        async with connected(echo_server(place)) as connection:
            reader, writer = await asyncio.open_unix_connection(place)
            writer.write(invalid)
            await writer.drain()
            sent = writer.get_extra_info("socket")
            await until(lambda: untaken(sent) == 0)
            assert await answers(connection)
            writer.close()
            await writer.wait_closed()
            assert await answers(connection)
            del reader

    asyncio.run(scenario())
    assert faults == []
    assert capfd.readouterr().err == ""


class Ticker:
    """A stream that counts its readers."""

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


def test_a_stream_ends_with_its_peer(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        ticker = Ticker()
        made = GrpcServer(place, [StreamMethod(WATCH, ticker.items)])
        async with connected(made):
            for leave in ("hang up", "cancel"):
                async with dial(place) as connection, connection.stream(WATCH) as stream:
                    await stream.send_message(b"", end=True)
                    assert await stream.recv_message() == b""
                    assert ticker.listeners == 1
                    await stream.cancel()
                    if leave == "cancel":
                        await until(lambda: ticker.listeners == 0)
                await until(lambda: ticker.listeners == 0)

    asyncio.run(scenario())
    assert capfd.readouterr().err == ""


FULL = 1 << 15
"""Bytes that only a stream can have sent: far less than one of its items, so that it has to wait."""


async def open_unread_stream(place: Path) -> socket.socket:
    """Open a stream with the library's own bytes, and never read from it."""
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, str(place))
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
    await asyncio.get_running_loop().sock_sendall(connection, PREFACE + settings + window + call + body)
    return connection


def test_a_peer_that_does_not_read_blocks_neither_others_nor_the_close(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        ticker = Ticker(bytes(1 << 20))
        methods: list[Method] = [StreamMethod(WATCH, ticker.items), UnaryMethod(ECHO, wire.Claim, echo)]
        async with connected(GrpcServer(place, methods, grace=0.05)) as connection:
            line_that_is_deaf = await open_unread_stream(place)
            await until(lambda: unread(line_that_is_deaf) >= FULL)
            assert await answers(connection)
            async with connection.stream(WATCH) as stream:
                await stream.send_message(b"", end=True)
                for _ in range(3):
                    assert await stream.recv_message() == ticker.item
                await stream.cancel()
            assert ticker.listeners >= 1
        assert ticker.listeners == 0
        line_that_is_deaf.close()

    asyncio.run(scenario())
    assert capfd.readouterr().err == ""


def test_a_peer_that_stops_reading_cancels_and_disconnects_leaves_no_task(place: Path) -> None:
    async def scenario() -> None:
        ticker = Ticker(bytes(1 << 20))
        async with connected(GrpcServer(place, [StreamMethod(WATCH, ticker.items)])):
            before = len(asyncio.all_tasks())
            connection = await open_unread_stream(place)
            await until(lambda: unread(connection) >= FULL)
            connection.send(bytes.fromhex("00000403000000000100000008"))
            await until(lambda: ticker.listeners == 0)
            connection.close()
            await until(lambda: len(asyncio.all_tasks()) == before)

    asyncio.run(scenario())


SILENT = """
import asyncio, math, sys
from pathlib import Path
from fairlead.kubelet import messages as wire
from fairlead.kubelet.sockets import GrpcServer, UnaryMethod
from tests.kubelet.kubelets import dial, until, untaken

async def sleep(_):
    called.set()
    await asyncio.sleep(60)

called = asyncio.Event()

async def main(path):
    # In debug mode asyncio logs every slow callback, and on a busy machine any callback is slow.
    asyncio.get_running_loop().slow_callback_duration = math.inf
    server = GrpcServer(path, [UnaryMethod("/test/Sleep", wire.Empty, sleep)], grace=0.01)
    await server.open()
    for leave in ("cancel", "vanish", "fail"):
        async with dial(path) as connection:
            call = asyncio.create_task(connection.send("/test/Sleep", b"" if leave != "fail" else b"\\x0a"))
            await (called.wait() if leave != "fail" else asyncio.wait([call]))
            called.clear()
            if leave == "cancel":
                call.cancel()
                await asyncio.wait([call])
        await asyncio.wait([call])
        call.cancelled() or call.exception()
    for invalid in sys.argv[2:]:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(bytes.fromhex(invalid))
        await until(lambda: untaken(writer.get_extra_info("socket")) == 0)
        writer.close()
    await server.close()

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_disconnected_peer_is_not_logged(place: Path) -> None:
    """In a process without a logging handler: in a test, pytest installs one."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", SILENT, str(place), *map(bytes.hex, INVALID.values())],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
