"""A relay of TCP in the test's own process, which can cut, stall and slow down what it passes on."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Relay:
    """Connections to `port` reach the target while nothing is wrong."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._flows = threading.Event()
        self._flows.set()
        self.pause = 0.0
        """Seconds between two reads: a slow link."""
        self.most = 1 << 16
        """Bytes of a read."""
        self.is_away = False
        """Connections are ended as soon as they are made."""
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def stall(self) -> None:
        """Pass nothing on, and end nothing."""
        self._flows.clear()

    def flow(self) -> None:
        """Pass everything on again."""
        self._flows.set()

    def close(self) -> None:
        """End the relay."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.flow()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self.is_away:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                near.close()
                continue
            self._pairs.append((near, far))
            threading.Thread(target=self._pass_on, args=(near, far), daemon=True).start()

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        with near, far, selectors.DefaultSelector() as selector, suppress(OSError):
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            while True:
                for key, _ in selector.select():
                    self._flows.wait()
                    data = key.fileobj.recv(self.most)  # type: ignore[union-attr]  # a socket
                    if not data:
                        return
                    key.data.sendall(data)
                    if self.pause:
                        threading.Event().wait(self.pause)


@contextmanager
def relay(target: int) -> Iterator[Relay]:
    """Yield a relay to a port of the loopback."""
    made = Relay(target)
    try:
        yield made
    finally:
        made.close()
