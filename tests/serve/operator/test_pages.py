"""Pages of pods: read when a controller asks for them, as often as it says, bounded, and never in its way."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime

import pytest

from fairlead.compat.times import UTC
from fairlead.reconcile import PageReading, PodPage
from fairlead.serve.operator.kinds import ObjectId
from fairlead.serve.operator.page_http import LONGEST, read_page
from fairlead.serve.operator.pages import AT_ONCE, PageSchedule
from tests.serve.operator.simulated import World
from tests.serve.operator.widgets import WIDGETS, widget

NOW = datetime(2026, 11, 18, tzinfo=UTC)
PAGE = PodPage("10.0.0.1", 9090, "/status")
KEY = ObjectId(WIDGETS, "default", "a")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def test_a_controller_gets_the_pages_that_it_asks_for() -> None:
    world = World()
    world.api.pages[PAGE] = (b"one", "")
    world.create(widget("a", pages={"10.0.0.1": 1, "10.0.0.2": 10}))
    world.settle(20.0)
    (a,) = world.api.all("widgets").values()
    assert a["status"]["pages"] == ["one", "refused"]
    assert [world.api.reads.count(page) > 5 for page in (PAGE, PodPage("10.0.0.2", 9090, "/status"))] == [
        True,
        False,
    ]
    world.api.pages[PAGE] = (b"two", "")
    world.settle(5.0)
    (a,) = world.api.all("widgets").values()
    assert a["status"]["pages"] == ["two", "refused"]
    before = list(world.api.writes)
    world.settle(20.0)
    assert world.api.writes == before, "the same pages change nothing"


def test_a_page_that_is_asked_for_no_longer_is_not_read() -> None:
    world = World()
    world.create(widget("a", pages={"10.0.0.1": 1}))
    world.settle(10.0)
    world.edit("widgets", "a", {"spec": {"pages": None}})
    world.settle(5.0)
    reads = len(world.api.reads)
    world.settle(20.0)
    assert len(world.api.reads) == reads
    world.edit("widgets", "a", {"spec": {"pages": {"10.0.0.1": 1}}})
    world.settle(5.0)
    assert len(world.api.reads) > reads
    world.delete("widgets", "a")
    world.settle(5.0)
    reads = len(world.api.reads)
    world.settle(20.0)
    assert len(world.api.reads) == reads


def test_a_page_is_read_at_most_once_a_second_and_few_at_once() -> None:
    schedule, pages = PageSchedule(), [PodPage("10.0.0.1", port, "/") for port in range(1, AT_ONCE + 5)]
    schedule.ask(KEY, dict.fromkeys(pages, 0.0), 100.0)
    first = schedule.take_due(100.0)
    assert len(first) == AT_ONCE
    assert schedule.take_due(100.0) == [], "no more at once"
    for key, page in first:
        assert schedule.put(key, page, PageReading(at=NOW))
    assert [page for _, page in schedule.take_due(100.0)] == pages[AT_ONCE:], "those that waited come first"
    assert len(schedule.take_due(100.9)) == 0
    assert len(schedule.take_due(101.0)) == AT_ONCE - 4


def test_a_shorter_interval_counts_at_once_and_a_repeated_question_does_not_delay() -> None:
    schedule = PageSchedule()
    schedule.ask(KEY, {PAGE: 10.0}, 100.0)
    ((key, page),) = schedule.take_due(100.0)
    schedule.put(key, page, PageReading(at=NOW))
    schedule.ask(KEY, {PAGE: 10.0}, 105.0)
    assert schedule.take_due(109.0) == []
    schedule.ask(KEY, {PAGE: 1.0}, 106.0)
    assert schedule.take_due(107.0) == [(KEY, PAGE)]


def test_force_deletes_a_pod_that_is_being_deleted_already() -> None:
    world = World()
    world.create(widget("a", pods=["x"], keep=["a-x"], force=["a-x"]))
    world.settle(5.0)
    assert set(world.api.all("pods")) == {"a-x"}
    world.edit("widgets", "a", {"spec": {"pods": [], "keep": []}})
    world.settle(5.0)
    assert world.api.all("pods") == {}


def served(serve: Serve, within: float = 60.0, path: str = "/status") -> tuple[bytes, str]:
    """Return how a page is read from a server on the loopback."""

    async def play() -> tuple[bytes, str]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            answer = await read_page(PodPage("127.0.0.1", port, path), within)
            await asyncio.gather(
                *(each for each in asyncio.all_tasks() if each is not asyncio.current_task())
            )
            return answer

    return asyncio.run(play())


def answering(*parts: bytes) -> Serve:
    """Return a server that sends the same to everyone."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
        with contextlib.suppress(OSError):
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    return serve


OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
ANSWERS: dict[str, tuple[tuple[bytes, ...], bytes, str]] = {
    "a page": ((OK, b"hello"), b"hello", ""),
    "the largest": ((OK, b"x" * LONGEST), b"x" * LONGEST, ""),
    "one that is too large": ((OK, b"x" * (LONGEST + 1)), b"", "larger than 1048576"),
    "a redirect": ((b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n",), b"", "302"),
    "none": ((b"HTTP/1.1 404 Not Found\r\n\r\nno",), b"", "404"),
    "another protocol": ((b"SSH-2.0-x\r\n\r\n",), b"", "SSH-2.0-x"),
    "an endless head": ((b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 10_000,), b"", "chunk"),
    "nothing": ((), b"", "0 bytes read"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_is_a_body_or_a_reason(case: str) -> None:
    parts, body, reason = ANSWERS[case]
    read, error = served(answering(*parts))
    assert read == body
    assert reason in error
    assert bool(error) == bool(reason)


def test_a_page_that_never_ends_is_given_up() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"x")
        await reader.read()  # until the client is gone
        writer.transport.abort()

    assert served(serve, within=0.2) == (b"", "no answer within 0.2s")


def test_a_closed_port_is_a_reason() -> None:
    body, error = asyncio.run(read_page(PodPage("127.0.0.1", 1, "/")))
    assert body == b""
    assert error
