"""A relay of TCP that adds delay, limits the rate, holds what a network would lose, and cuts connections.

A kernel without `netem` cannot delay packets. A relay sees no packets, only bytes: what is lost on the way
shows as a pause of one retransmission timeout. All of it can change while connections are open.
"""

import json
import random
import selectors
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

_READ: Final = 1 << 16
RETRANSMIT_S: Final = 0.2
"""How long bytes are held that were lost: the least retransmission timeout of Linux."""
_ORIGINAL_TARGET: Final = 80
"""SO_ORIGINAL_DST of Linux, which Python does not name."""
_END_S: Final = 2.0
_AHEAD: Final = 1 << 20
"""Bytes that are held on their way in each direction; a sender that is faster waits."""


@dataclass(frozen=True, slots=True)
class RelayShape:
    """What the relay does to each direction of a connection."""

    delay_s: float = 0.0
    bytes_per_s: float | None = None
    """None: as fast as it can."""
    loss: float = 0.0
    """The part of reads, of up to 64 KiB, that are held for one retransmission timeout."""


class _Wire:
    """One direction of the emulated link: of one connection, or of all."""

    def __init__(self) -> None:
        self.free_at = 0.0
        """When it has sent what it has."""


class _Lane:
    """One direction of a connection: bytes with the times at which they may leave."""

    def __init__(self, source: socket.socket, target: socket.socket, wire: _Wire) -> None:
        self.source = source
        self.target = target
        self.held: deque[tuple[float, bytes]] = deque()
        self.size = 0
        self._wire = wire

    def take(self, data: bytes, shape: RelayShape, now: float, chance: float) -> None:
        """Hold bytes until the emulated link has carried them."""
        begin = max(now, self._wire.free_at)
        self._wire.free_at = begin + (len(data) / shape.bytes_per_s if shape.bytes_per_s else 0.0)
        if chance < shape.loss:
            self._wire.free_at += RETRANSMIT_S
        self.held.append((self._wire.free_at + shape.delay_s, data))
        self.size += len(data)

    def pass_on(self, now: float) -> float | None:
        """Send what is due; return when the next bytes are, None: there are none."""
        while self.held:
            due, data = self.held[0]
            if due > now:
                return due
            self.held.popleft()
            self.size -= len(data)
            self.target.sendall(data)
        return None


class Relay:
    """Connections to `address` reach the target while the relay is open."""

    def __init__(
        self,
        target: tuple[str, int] | None,
        listen: tuple[str, int] = ("127.0.0.1", 0),
        *,
        shared: bool = False,
    ) -> None:
        """Relay to a target; None: to where each connection went before the kernel redirected it.

        `shared`: all connections together have the rate, and not each of them.
        """
        self._target = target
        self._wires = (_Wire(), _Wire()) if shared else None
        self._listener = socket.create_server(listen)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.shape = RelayShape()
        self.is_away = False
        """New connections are ended at once."""
        self.accepted = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def change(self, **changes: Any) -> None:
        """Change fields of the shape; bytes that are on their way keep their times."""
        self.shape = replace(self.shape, **changes)

    def cut(self) -> None:
        """End every connection; what is on its way is lost."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the relay and its connections."""
        self.is_away = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in tuple(self._threads):
            thread.join(_END_S)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                far = None if self.is_away else self._connect(near)
            except OSError:
                far = None
            if far is None:
                near.close()
                continue
            for end in (near, far):
                end.setblocking(True)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.append((near, far))
            thread = threading.Thread(target=self._serve, args=(near, far), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _connect(self, near: socket.socket) -> socket.socket:
        return socket.create_connection(self._target or original_target(near), 5)

    def _serve(self, near: socket.socket, far: socket.socket) -> None:
        """Pass both directions on until either ends."""
        there, home = self._wires or (_Wire(), _Wire())
        back = threading.Thread(target=self._pass_on, args=(_Lane(far, near, home),), daemon=True)
        with near, far:
            back.start()
            self._pass_on(_Lane(near, far, there))
            back.join()
            with self._lock:
                self._pairs = [pair for pair in self._pairs if near not in pair]

    def _pass_on(self, lane: _Lane) -> None:
        """Move the bytes of one direction; its end is the end of both."""
        with suppress(OSError, ValueError), selectors.DefaultSelector() as selector:
            selector.register(lane.source, selectors.EVENT_READ)
            open_ = True
            while open_ or lane.held:
                due = lane.pass_on(time.monotonic())
                wait = None if due is None else max(0.0, due - time.monotonic())
                if not open_ or lane.size >= _AHEAD:
                    time.sleep(wait or 0.0)
                elif selector.select(wait):
                    data = lane.source.recv(_READ)
                    open_ = bool(data)
                    if data:
                        lane.take(data, self.shape, time.monotonic(), random.random())  # noqa: S311 - no secret
        for end in (lane.source, lane.target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def original_target(end: socket.socket) -> tuple[str, int]:
    """Return where a connection went that the kernel's address translation has sent here; OSError."""
    entry = end.getsockopt(socket.SOL_IP, _ORIGINAL_TARGET, 16)
    port, address = struct.unpack("!2xH4s8x", entry)
    return socket.inet_ntoa(address), port


@contextmanager
def relay(target: tuple[str, int] | None, listen: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[Relay]:
    """Yield a relay to an address."""
    made = Relay(target, listen)
    try:
        yield made
    finally:
        made.close()


def apply_line(line: str, made: Relay) -> str:
    """Do what a line of JSON says: fields of the shape to change, or `{"cut": true}`; return the answer."""
    try:
        body = json.loads(line)
        if body.pop("cut", False):
            made.cut()
        made.change(**body)
    except (TypeError, ValueError, AttributeError) as error:
        return json.dumps({"problem": str(error)})
    return json.dumps(asdict(made.shape))


def main(words: list[str]) -> None:
    """Relay in a process of its own: `LISTEN PORT [TARGET PORT]`; lines on the standard input change it."""
    host, port, *rest = words
    target = (rest[0], int(rest[1])) if rest else None
    with relay(target, (host, int(port))) as made:
        sys.stdout.write(json.dumps({"port": made.address[1]}) + "\n")
        sys.stdout.flush()
        for line in sys.stdin:
            sys.stdout.write(apply_line(line, made) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
