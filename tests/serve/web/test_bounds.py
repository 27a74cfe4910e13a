"""What clients can use of a server: connections, time and memory are bounded, and others are answered."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from fairlead.serve.web.connections import ConnectionLimits, ConnectionPool
from fairlead.serve.web.httpd import Response, listen
from fairlead.serve.web.request_bodies import BODY_LIMIT
from fairlead.serve.web.router import Router, open_server
from fairlead.serve.web.tls import server_tls
from fairlead.settings import Address
from tests.serve.web import greedy
from tests.serve.web.test_router import echo, written

LONG = 600.0
"""Seconds that no test waits: with a limit this long, another limit closes the connection."""
PATIENT = ConnectionLimits(handshake=LONG, head=LONG, body=LONG, answer=LONG, idle=LONG)
HEAD = b"POST /filter HTTP/1.1\r\nHost: x\r\n"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A running server."""

    port: int
    router: Router
    connections: ConnectionPool
    crowd: greedy.Clients

    async def answered(self) -> bool:
        """Say whether a well-behaved client is answered."""
        return await answered(self.port)


async def answered(port: int) -> bool:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{port}/filter", data=b"four") as response,
    ):
        return (response.status, await response.text()) == (200, "4")


@asynccontextmanager
async def running_server(
    limits: ConnectionLimits, verb: Callable[[bytes], Awaitable[Response]] = echo
) -> AsyncIterator[RunningServer]:
    listener = listen(Address("127.0.0.1", 0))
    router = Router({"/filter": verb}, {}, require_certificate=False, limits=limits)
    port = listener.getsockname()[1]
    async with open_server(listener, router, None) as connections, greedy.crowd(port) as crowd:
        yield RunningServer(port, router, connections, crowd)


def test_the_documented_limits_are_the_defaults() -> None:
    assert ConnectionLimits() == ConnectionLimits(256, 10.0, 10.0, 10.0, 10.0, 120.0, 32 << 20)
    text = Path("docs/reference/extender.md").read_text(encoding="utf-8")
    for bound in ("256 connections", "32 MiB", "4 MiB", "10 seconds", "120 seconds"):
        assert bound in text


@pytest.mark.parametrize("started", [b"", HEAD, b"POST"])
def test_a_head_that_does_not_end_ends_the_connection(started: bytes) -> None:
    async def scenario() -> None:
        async with running_server(ConnectionLimits(head=0.2, body=LONG, idle=LONG)) as here:
            await asyncio.gather(
                *[greedy.drip(await here.crowd.connected(started)) for _ in range(20)],
                *[greedy.ended(await here.crowd.connected(started)) for _ in range(20)],
            )
            assert await here.answered()

    asyncio.run(scenario())


def test_a_second_head_has_as_much_time_from_its_first_byte() -> None:
    async def scenario() -> None:
        async with running_server(ConnectionLimits(head=0.2, body=LONG, idle=LONG)) as here:
            reader, writer = await here.crowd.connected(HEAD + b"Content-Length: 0\r\n\r\n")
            assert await reader.readuntil(b"\r\n0") is not None
            await greedy.drip((reader, writer))

    asyncio.run(scenario())


def test_a_missing_handshake_ends_the_connection(tmp_path: Path) -> None:
    files, _ = written(tmp_path, "server")

    async def scenario() -> None:
        listener = listen(Address("127.0.0.1", 0))
        limits = ConnectionLimits(handshake=0.2, head=LONG, idle=LONG)
        router = Router({"/filter": echo}, {}, require_certificate=False, limits=limits)
        async with (
            open_server(listener, router, server_tls(files, "", print).context) as connections,
            greedy.crowd(listener.getsockname()[1]) as crowd,
        ):
            await asyncio.gather(*[greedy.ended(await crowd.connected(b"\x16\x03\x01")) for _ in range(20)])
            await settled(connections, 0)

    asyncio.run(scenario())


def test_a_body_that_does_not_end_is_refused_in_time() -> None:
    async def scenario() -> None:
        async with running_server(ConnectionLimits(head=LONG, body=0.2, idle=LONG)) as here:
            stream = await here.crowd.unfinished(1000)
            assert b" 408 " in await stream[0].readline()
            await greedy.ended(stream)
            assert here.router.bodies.held == 0

    asyncio.run(scenario())


def test_an_answer_that_is_not_read_ends_the_connection() -> None:
    async def large(_body: bytes) -> Response:
        return Response(200, bytes(64 << 20))

    async def scenario() -> None:
        async with running_server(
            ConnectionLimits(head=LONG, body=LONG, answer=0.2, idle=LONG), large
        ) as here:
            await here.crowd.connected(HEAD + b"Content-Length: 0\r\n\r\n")
            while not len(here.connections):
                await asyncio.sleep(0.01)
            await settled(here.connections, 0)

    asyncio.run(scenario())


async def settled(connections: ConnectionPool, number: int) -> None:
    """Wait until `number` connections are open."""
    async with asyncio.timeout(300):
        while len(connections) != number:
            await asyncio.sleep(0.01)


def test_connections_are_bounded_and_a_used_one_outlives_unused_ones() -> None:
    async def scenario() -> None:
        async with running_server(ConnectionLimits(8, LONG, LONG, LONG, LONG, LONG)) as here:
            reader, writer = await here.crowd.connected()
            for _ in range(3):
                writer.write(HEAD + b"Content-Length: 4\r\n\r\nfour")
                assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
                assert await reader.readexactly(1) == b"4"
                slow = [await here.crowd.connected(HEAD) for _ in range(20)]
                await asyncio.gather(
                    *(greedy.ended(each) for each in slow[:12])
                )  # they were closed to make room
                assert len(here.connections) <= 8

    asyncio.run(scenario())


def test_connections_with_a_request_in_work_are_not_closed_to_make_room() -> None:
    async def scenario() -> None:
        release, started = asyncio.Event(), asyncio.Semaphore(0)

        async def held(_body: bytes) -> Response:
            started.release()
            await release.wait()
            return Response(200, b"done")

        async with running_server(ConnectionLimits(4, LONG, LONG, LONG, LONG, LONG), held) as here:
            whole = [await here.crowd.connected(HEAD + b"Content-Length: 0\r\n\r\n") for _ in range(4)]
            for _ in whole:
                await started.acquire()
            await greedy.ended(await here.crowd.connected())  # there is no room for it
            release.set()
            for reader, _ in whole:
                assert b" 200 " in await reader.readline()

    asyncio.run(scenario())


def test_bodies_are_bounded_in_all_and_the_oldest_unfinished_makes_room() -> None:
    async def scenario() -> None:
        bound = 3 * BODY_LIMIT
        async with running_server(ConnectionLimits(64, LONG, LONG, LONG, LONG, LONG, bodies=bound)) as here:
            stalled = []
            for _ in range(8):
                stalled.append(await here.crowd.unfinished(BODY_LIMIT))
                assert here.router.bodies.held <= bound
                assert await here.answered()
            for reader, _ in stalled[:4]:
                head = await reader.readuntil(b"\r\n\r\n")
                assert b" 503 " in head
                assert b"Retry-After: 1\r\n" in head
            await here.crowd.leave()
            async with asyncio.timeout(300):
                while here.router.bodies.held:
                    await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_complete_bodies_keep_their_memory_until_they_are_answered() -> None:
    async def scenario() -> None:
        release, started = asyncio.Event(), asyncio.Event()

        async def held(body: bytes) -> Response:
            if len(body) > 4:
                started.set()
                await release.wait()
            return await echo(body)

        async with (
            running_server(ConnectionLimits(bodies=1000), held) as here,
            aiohttp.ClientSession() as session,
        ):
            url = f"http://127.0.0.1:{here.port}/filter"
            first = asyncio.create_task(session.post(url, data=bytes(998)))
            await started.wait()
            async with session.post(url, data=b"four") as response:
                assert (response.status, response.headers["Retry-After"]) == (503, "1")
            release.set()
            assert await (await first).text() == "998"
            assert await here.answered()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "more",
    [
        b"Transfer-Encoding: chunked\r\n\r\nnonsense",
        b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nfour",
    ],
)
def test_a_malformed_body_affects_no_other_client(more: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> bytes:
        async with running_server(PATIENT) as here:
            reader, _ = await here.crowd.connected(HEAD + more)
            line = await reader.readline()
            assert await here.answered()
            assert here.router.bodies.held == 0
            return line

    line = asyncio.run(scenario())
    assert b" 200 " in line if b"gzip" in more else b" 400 " in line


def test_a_client_that_disconnects_within_its_body_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with running_server(PATIENT) as here:
            _, writer = await here.crowd.unfinished(1000)
            async with asyncio.timeout(300):
                while not here.router.bodies.held:
                    await asyncio.sleep(0.01)
            writer.transport.abort()
            await settled(here.connections, 0)
            assert here.router.bodies.held == 0

    asyncio.run(scenario())
    assert not caplog.records


def test_a_gigabyte_of_unfinished_bodies_does_not_end_the_process() -> None:
    async def scenario() -> None:
        async with greedy.process() as (port, pid), greedy.crowd(port) as crowd:
            assert await answered(port)
            before = greedy.peak_memory(pid)
            for _ in range(6):
                await asyncio.gather(*(crowd.unfinished(3_900_000) for _ in range(43)))
                assert await answered(port)
            grown = greedy.peak_memory(pid) - before
            # 32 MiB of bodies, and what each connection has buffered.
            assert grown < 128 << 20, f"{grown >> 20} MiB"

    asyncio.run(scenario())
