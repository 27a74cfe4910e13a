"""A kubelet as plugins see it: it calls GetInfo on a registration, and then the endpoint that it names."""

import asyncio
import contextlib
import fcntl
import socket as sockets
import sys
import tempfile
import termios
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpclib.client import Channel, Stream
from grpclib.config import Configuration
from grpclib.const import Cardinality
from grpclib.encoding.base import CodecBase

from fairlead.compat.aio import timeout
from fairlead.kubelet import messages as wire
from fairlead.kubelet.proto import M, Message, decode, encode

PATIENCE = 30.0
"""Longer than any successful call takes."""
SMALLEST_WINDOW = 2**16 - 1
DEVICES = "/v1beta1.DevicePlugin"
REGISTRATION = "/pluginregistration.Registration"


class Raw(CodecBase):
    """Messages as bytes, without a check."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return data


@dataclass(frozen=True, slots=True)
class PluginFolders:
    """The two folders of an agent, with names as short as those of a real node."""

    folder: Path
    registry: Path

    def sockets(self) -> list[str]:
        return sorted(path.name for folder in (self.folder, self.registry) for path in folder.iterdir())


@contextmanager
def plugin_folders() -> Iterator[PluginFolders]:
    """Create the folders."""
    with tempfile.TemporaryDirectory(prefix="fl-") as place:
        made = PluginFolders(Path(place) / "plugins", Path(place) / "registry")
        made.folder.mkdir()
        made.registry.mkdir()
        yield made


class Connection:
    """A connection to one socket."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def stream(self, method: str) -> Stream[bytes, bytes]:
        return self._channel.request(method, Cardinality.UNARY_STREAM, bytes, bytes)

    async def send(self, method: str, data: bytes) -> bytes:
        """Call a method with these bytes."""
        async with timeout(PATIENCE):
            request = self._channel.request(method, Cardinality.UNARY_UNARY, bytes, bytes)
            async with request as stream:
                await stream.send_message(data, end=True)
                answer = await stream.recv_message()
        assert answer is not None
        return answer

    async def call(self, method: str, request: Message, answer: type[M]) -> M:
        return decode(answer, await self.send(method, encode(request)))

    @asynccontextmanager
    async def lists(self) -> AsyncIterator["Lists"]:
        """Open a ListAndWatch; leaving the context cancels it, as a kubelet that dies does."""
        async with timeout(PATIENCE), self.stream(f"{DEVICES}/ListAndWatch") as stream:
            await stream.send_message(encode(wire.Empty()), end=True)
            yield Lists(stream)
            with contextlib.suppress(Exception):
                await stream.cancel()


@dataclass(frozen=True, slots=True)
class Lists:
    """The messages of a ListAndWatch."""

    stream: Stream[bytes, bytes]

    async def next(self) -> list[tuple[str, str]] | None:
        """Return the next list as pairs of id and health; None at the end."""
        data = await self.stream.recv_message()
        if data is None:
            return None
        return [(device.id, device.health) for device in decode(wire.ListAndWatchResponse, data).devices]


@asynccontextmanager
async def dial(socket: Path | str, window: int = 4 * 1024 * 1024) -> AsyncIterator[Connection]:
    """Connect; the peer may send `window` bytes before any is read."""
    config = Configuration(http2_connection_window_size=window, http2_stream_window_size=window)
    channel = Channel(path=str(socket), codec=Raw(), config=config)
    try:
        yield Connection(channel)
    finally:
        channel.close()
        await asyncio.sleep(0)


async def info(socket: Path) -> wire.PluginInfo:
    """Call GetInfo on a registration socket."""
    async with dial(socket) as connection:
        return await connection.call(f"{REGISTRATION}/GetInfo", wire.Empty(), wire.PluginInfo)


async def notify(socket: Path, status: wire.RegistrationStatus) -> None:
    """Notify a registration socket of its status."""
    async with dial(socket) as connection:
        await connection.call(f"{REGISTRATION}/NotifyRegistrationStatus", status, wire.Empty)


async def until(true: Any) -> None:
    """Wait until a condition holds."""
    async with timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.005)


def unread(sock: sockets.socket) -> int:
    """Return the number of received bytes in the kernel's buffer."""
    return _buffered(sock, termios.FIONREAD)


def untaken(sock: sockets.socket) -> int:
    """Return the number of sent bytes that the peer has not read yet; 0 where it disconnected."""
    return _buffered(sock, termios.TIOCOUTQ)


def _buffered(sock: sockets.socket, request: int) -> int:
    answer = fcntl.ioctl(sock.fileno(), request, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def ids(lists: Sequence[tuple[str, str]] | None) -> list[str]:
    """Return the ids of a list."""
    return [unit for unit, _ in lists or ()]
