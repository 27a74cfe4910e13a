"""A server to relay to: it echoes in capitals, and can be stopped and started again."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

PATIENCE = 30.0


class Kubelet:
    """A server on a socket; each connection is served by a thread."""

    def __init__(self, path: Path, greeting: bytes = b"") -> None:
        self.path = path
        self.received = 0
        self._greeting = greeting
        self._connections: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> "Kubelet":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop as a kubelet does: connections break, the socket disappears."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE)
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
            connection.close()
        self.path.unlink()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        try:
            connection.sendall(self._greeting)
            while data := connection.recv(1 << 16):
                self.received += len(data)
                connection.sendall(data.upper())
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
