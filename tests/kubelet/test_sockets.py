"""gRPC servers: their own sockets and those of others, answers, and closing."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from fairlead.errors import AllocationRefusedError, FairleadError, KubeletError
from fairlead.kubelet import messages as wire
from fairlead.kubelet.proto import Message, encode
from tests.kubelet.kubelets import PATIENCE, plugin_folders, until
from tests.kubelet.sockets import ECHO, answers, connected, echo_server


@pytest.fixture
def place() -> Iterator[Path]:
    with plugin_folders() as server:
        yield server.folder / "x.sock"


# The socket


def test_a_server_leaves_nothing_behind(place: Path) -> None:
    async def scenario() -> None:
        server = echo_server(place)
        await server.close()  # never opened
        for _ in range(2):
            async with connected(server) as connection:
                assert await answers(connection)
            assert not os.path.lexists(place)
        await server.close()

    asyncio.run(scenario())


def test_a_stale_socket_is_replaced(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(place))

    async def scenario() -> None:
        async with connected(echo_server(place)) as connection:
            assert await answers(connection)

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
def test_a_file_that_is_not_a_socket_stays(place: Path, make: Callable[[Path], None]) -> None:
    make(place)
    before = os.lstat(place)
    with pytest.raises(KubeletError, match="not a socket") as caught:
        asyncio.run(echo_server(place).open())
    assert "folder" in caught.value.hint
    assert os.lstat(place).st_ino == before.st_ino


@pytest.mark.parametrize("name", ["missing/x.sock", "x" * 200 + ".sock"])
def test_an_impossible_path_is_an_error(place: Path, name: str) -> None:
    with pytest.raises(KubeletError, match="cannot listen on"):
        asyncio.run(echo_server(place.parent / name).open())


def test_a_later_server_keeps_the_socket(place: Path) -> None:
    async def scenario() -> None:
        old, new = echo_server(place), echo_server(place)
        await old.open()
        async with connected(new) as connection:
            await old.close()
            assert await answers(connection)

    asyncio.run(scenario())


# Answers


def test_answers() -> None:
    async def refuse(claim: wire.Claim) -> Message:
        if claim.name == "refused":
            raise AllocationRefusedError("g0 is held whole by default/x", "wait for it")
        if claim.name == "long":
            raise AllocationRefusedError("x" * 10_000)
        if claim.name == "away":
            raise FairleadError("the warden is away")
        raise KeyError(claim.name)

    expected = {
        "refused": (Status.FAILED_PRECONDITION, "g0 is held whole by default/x (wait for it)"),
        "long": (Status.FAILED_PRECONDITION, "x" * 1997 + "..."),
        "away": (Status.INTERNAL, "the warden is away"),
        "bug": (Status.INTERNAL, "/test/Echo failed: see the log of the agent"),
    }
    lines: list[str] = []

    async def scenario(place: Path) -> None:
        async with connected(echo_server(place, refuse, say=lines.append)) as connection:
            for name, answer in expected.items():
                with pytest.raises(GRPCError) as caught:
                    await connection.call(ECHO, wire.Claim(name=name), wire.Claim)
                assert (caught.value.status, caught.value.message) == answer

    with plugin_folders() as server:
        asyncio.run(scenario(server.folder / "x.sock"))
    assert lines == ["/test/Echo failed: KeyError('bug')"]


def test_a_malformed_request_is_refused_and_the_next_call_served(place: Path) -> None:
    async def scenario() -> None:
        async with connected(echo_server(place)) as connection:
            for method, data, status in (
                (ECHO, b"\x0a\xff", Status.INVALID_ARGUMENT),
                (ECHO, b"\x0a\x02\xc3\x28", Status.INVALID_ARGUMENT),
                ("/test/Other", b"", Status.UNKNOWN),
            ):
                with pytest.raises(GRPCError) as caught:
                    await connection.send(method, data)
                assert caught.value.status is status
                assert await answers(connection)

    asyncio.run(scenario())


# Closing


def test_a_running_call_is_answered_before_the_server_closes(place: Path) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def slow(claim: wire.Claim) -> Message:
        began.set()
        await go.wait()
        return claim

    async def scenario() -> None:
        server = echo_server(place, slow)
        async with connected(server) as connection:
            call = asyncio.create_task(connection.call(ECHO, wire.Claim("n"), wire.Claim))
            await began.wait()
            closing = asyncio.create_task(server.close())
            await until(lambda: not place.exists())
            with pytest.raises(GRPCError, match="shutting down"):
                await connection.call(ECHO, wire.Claim("late"), wire.Claim)
            go.set()
            assert await call == wire.Claim("n")
            await closing

    asyncio.run(scenario())


def test_a_call_that_never_ends_is_cancelled(place: Path) -> None:
    broken: list[str] = []
    called = asyncio.Event()

    async def endless(claim: wire.Claim) -> Message:
        try:
            called.set()
            await asyncio.sleep(PATIENCE * 10)
        except asyncio.CancelledError:
            broken.append(claim.name)
            raise
        return claim

    async def scenario() -> None:
        server = echo_server(place, endless, grace=0.05)
        async with connected(server) as connection:
            call = asyncio.create_task(connection.send(ECHO, encode(wire.Claim(name="x"))))
            await called.wait()
            await server.close()
            with pytest.raises((StreamTerminatedError, GRPCError)):
                await call

    asyncio.run(scenario())
    assert broken == ["x"]
