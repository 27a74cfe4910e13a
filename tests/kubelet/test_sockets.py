"""Doors: sockets that are ours and sockets that are not, answers, and closing."""

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
from tests.kubelet.kubelets import PATIENCE, rooms, until
from tests.kubelet.sockets import ECHO, door, opened, sound


@pytest.fixture
def place() -> Iterator[Path]:
    with rooms() as made:
        yield made.folder / "x.sock"


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
        made = door(place, endless, grace=0.05)
        async with opened(made) as line:
            call = asyncio.create_task(line.send(ECHO, encode(wire.Claim(name="x"))))
            await called.wait()
            await made.close()
            with pytest.raises((StreamTerminatedError, GRPCError)):
                await call

    asyncio.run(scenario())
    assert broken == ["x"]
