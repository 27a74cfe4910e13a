"""Clients that use more than their share of a server, and a small server for them."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

SERVER = """
import asyncio
from fairlead.serve.web.router import Router, open_server
from fairlead.serve.web.httpd import Response, listen
from fairlead.settings import Address

async def echo(body):
    return Response(200, str(len(body)).encode())

async def main():
    listener = listen(Address("127.0.0.1", 0))
    async with open_server(listener, Router({"/filter": echo}, {}, require_certificate=False), None):
        print(listener.getsockname()[1], flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""
"""A server with the default limits."""


@asynccontextmanager
async def process() -> AsyncIterator[tuple[int, int]]:
    """Run the server as a process of its own; yield its port and its process id."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, stdout=asyncio.subprocess.PIPE
    )
    assert started.stdout is not None
    try:
        yield int(await started.stdout.readline()), started.pid
    finally:
        started.kill()
        await started.wait()


def peak_memory(pid: int) -> int:
    """Return the peak memory of a process, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


class Clients:
    """Clients of one port that all disconnect together."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def connected(self, text: bytes = b"") -> Stream:
        """Open a connection and send the start of a request."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        writer.write(text)
        return reader, writer

    async def unfinished(self, size: int) -> Stream:
        """Start a request of this size, and leave its last byte out."""
        head = f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
        reader, writer = await self.connected(head.encode())
        with suppress(ConnectionError):
            writer.write(bytes(size - 1))
            await writer.drain()
        return reader, writer

    async def leave(self) -> None:
        """Close every connection."""
        for writer in self._writers:
            writer.transport.abort()
        for writer in self._writers:
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def crowd(port: int) -> AsyncIterator[Clients]:
    """Yield clients that disconnect at the end."""
    clients = Clients(port)
    try:
        yield clients
    finally:
        await clients.leave()


async def drip(stream: Stream) -> None:
    """Send a head byte by byte, without an end, until the other side closes."""
    reader, writer = stream
    with suppress(ConnectionError):
        while not reader.at_eof():
            writer.write(b"a")
            await writer.drain()
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.02)


async def ended(stream: Stream) -> None:
    """Return when the other side has closed."""
    with suppress(ConnectionError):
        await stream[0].read()
