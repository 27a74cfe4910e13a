"""A server to relay to: it says back what it hears, in capitals, and can be ended and started again."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

PATIENCE = 30.0


class Kubelet:
    """A server on a socket; each connection is served by a thread."""

    def __init__(self, path: Path, greeting: bytes = b"") -> None:
        self.path = path
        self.heard = 0
        self._greeting = greeting
        self._lines: list[socket.socket] = []
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
        """End as a kubelet does: connections break, the socket goes."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE)
        for line in self._lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
            line.close()
        self.path.unlink()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            self._lines.append(line)
            threading.Thread(target=self._echo, args=(line,), daemon=True).start()

    def _echo(self, line: socket.socket) -> None:
        try:
            line.sendall(self._greeting)
            while data := line.recv(1 << 16):
                self.heard += len(data)
                line.sendall(data.upper())
            line.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
