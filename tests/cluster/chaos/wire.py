"""A proxy between a client and a server that can cut a connection at any byte, or let it die silently."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(eq=False)
class Link:
    """One connection through the wire."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    alive: asyncio.Event = field(default_factory=asyncio.Event)
    upward: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while bytes to the server are passed on."""
    left: int | None = None
    """Bytes that the server may still send before the link is cut; None: no limit."""
    hard: bool = False

    def cut(self) -> None:
        """Close the connection on both sides: cleanly, or with a reset as a crashed machine does."""
        for writer in (self.near, self.far):
            if self.hard:
                # Linger for zero seconds: the other side gets a reset, and bytes in flight are lost.
                sock = writer.get_extra_info("socket")
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writer.close()
        self.alive.set()
        self.upward.set()


class Wire:
    """All connections from one port to another."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._holding = False
        self.port = 0
        self.refusing = False
        """Whether new connections are refused."""

    def cut(self, *, after: int = 0, hard: bool = False) -> None:
        """Cut every connection after this many more bytes from the server."""
        for link in tuple(self._links):
            link.left, link.hard = after, hard
            if not after:
                link.cut()

    def deaden(self) -> None:
        """Pass nothing more on the open connections, without closing them."""
        for link in self._links:
            link.alive.clear()

    def hold(self) -> None:
        """Hold back the bytes to the server on all connections; bytes from the server still pass."""
        self._holding = True
        for link in self._links:
            link.upward.clear()

    def release(self) -> None:
        """Pass on the bytes that were held back: they arrive late."""
        self._holding = False
        for link in self._links:
            link.upward.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        link = Link(writer, far_writer)
        link.alive.set()
        if not self._holding:
            link.upward.set()
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_carry(reader, far_writer, link, counted=False))
                group.create_task(_carry(far_reader, writer, link, counted=True))
        finally:
            self._links.discard(link)
            for stream in (writer, far_writer):
                stream.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Wire"]:
        """Listen on the loopback while the block runs."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)  # lets the aborted transports close their sockets


async def _carry(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, link: Link, *, counted: bool
) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 14):
            await link.alive.wait()
            if not counted:
                await link.upward.wait()
            if counted and link.left is not None:
                data, link.left = data[: link.left], max(0, link.left - len(data))
            sink.write(data)
            await sink.drain()
            if counted and link.left == 0:
                break
    link.cut()
