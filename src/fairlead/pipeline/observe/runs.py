"""The status of running pipelines: each run answers on a socket in a folder of its user.

A reader connects, receives one JSON document and the end. The folder is the user's alone, and a run asks the
kernel for the user at the other end as well. A run that was killed leaves a socket that refuses connections:
the next reader removes it.
"""

import json
import os
import secrets
import select
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final

_FOLDER: Final = "fairlead-pipelines"
_CREDENTIALS: Final = struct.Struct("iII")
_PATIENCE: Final = 2.0
"""Seconds that the other end may take."""
_LARGEST: Final = 1 << 24
_PIECE: Final = 1 << 16
StatusDocument = Mapping[str, Any]


def run_folders(environ: Mapping[str, str]) -> list[str]:
    """Return the folders that may hold the sockets of this user's runs, the preferred one first."""
    user = os.geteuid()
    parents = [environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{user}"]
    own = [os.path.join(parent, _FOLDER) for parent in dict.fromkeys(parents) if parent and _is_own(parent)]
    return [*own, os.path.join(tempfile.gettempdir(), f"{_FOLDER}-{user}")]


class RunPublisher:
    """The latest status of a run, and the socket that answers with it as long as the context lasts.

    Where no folder can be used there is no socket, and the run goes on.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.latest: StatusDocument = {}
        self._place: tuple[int, str] | None = None
        self._listener: socket.socket | None = None
        self._ends: tuple[socket.socket, socket.socket] | None = None
        self._thread = threading.Thread(target=self._serve, name="status", daemon=True)

    def update(self, document: StatusDocument) -> None:
        """Take the status that is answered from now on."""
        self.latest = document

    def __enter__(self) -> "RunPublisher":
        for path in run_folders(self._environ):
            with suppress(OSError):
                os.mkdir(path, 0o700)
            folder = _open_folder(path)
            if folder is None:
                continue
            try:
                self._listener, name = _listen(folder)
            except OSError:
                os.close(folder)
                continue
            self._place = folder, name
            self._ends = socket.socketpair()
            self._thread.start()
            break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._place is None or self._listener is None or self._ends is None:
            return
        folder, name = self._place
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        ours, theirs = self._ends
        ours.close()
        self._thread.join()
        for each in (theirs, self._listener):
            each.close()
        os.close(folder)

    def _serve(self) -> None:
        """Run in a thread: answer one reader after another."""
        listener, ends = self._listener, self._ends
        assert listener is not None
        assert ends is not None
        while ends[1] not in select.select([listener, ends[1]], [], [])[0]:
            with suppress(OSError):
                peer, _ = listener.accept()
                with peer:
                    if peer_user(peer) in (os.geteuid(), 0):
                        peer.settimeout(_PATIENCE)
                        peer.sendall(json.dumps(self.latest).encode())


class RunSocket:
    """The socket of one run, for a reader."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        self._name = name

    def read(self) -> dict[str, Any] | None:
        """Return the status of the run; None: the run has ended. OSError: it does not answer now.

        What a killed run has left is removed.
        """
        folder = _open_folder(self._folder)
        if folder is None:
            return None
        try:
            return _ask(f"/proc/self/fd/{folder}/{self._name}")
        except ConnectionRefusedError:
            with suppress(OSError):
                os.unlink(self._name, dir_fd=folder)
            return None
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)


def find_runs(environ: Mapping[str, str]) -> list[tuple[RunSocket, dict[str, Any]]]:
    """Return the running pipelines of this user, each with its status, the longest running first."""
    found = []
    for path in run_folders(environ):
        with _names(path) as names:
            for name in names:
                run = RunSocket(path, name)
                with suppress(OSError):
                    if status := run.read():
                        found.append((run, status))
    return sorted(found, key=lambda each: -float(each[1]["seconds"]))


def peer_user(sock: socket.socket) -> int:
    """Return the user at the other end of a socket of this machine."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


def _is_own(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.geteuid()
    except OSError:
        return False


def _open_folder(path: str) -> int | None:
    """Return a descriptor of a folder that this user alone can use; None for any other."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(folder)
    if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077:
        return folder
    os.close(folder)
    return None


@contextmanager
def _names(path: str) -> Iterator[list[str]]:
    """Yield the names of the sockets in a folder; none where it is not the user's alone."""
    folder = _open_folder(path)
    if folder is None:
        yield []
        return
    try:
        yield sorted(name for name in os.listdir(folder) if not name.startswith("."))
    finally:
        os.close(folder)


def _listen(folder: int) -> tuple[socket.socket, str]:
    """Return a listening socket, and its name in a folder."""
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The path of the folder may be longer than the address of a socket can be.
        listener.bind(f"/proc/self/fd/{folder}/.{name}")
        listener.listen()
        # Only now: a reader removes a socket that nothing listens on.
        os.rename(f".{name}", name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        listener.close()
        raise
    return listener, name


def _ask(address: str) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(_PATIENCE)
        sock.connect(address)
        data = bytearray()
        while len(data) <= _LARGEST and (piece := sock.recv(_PIECE)):
            data += piece
    try:
        document = json.loads(data)
    except ValueError:
        raise ConnectionAbortedError("the run has sent no whole status") from None
    return document if isinstance(document, dict) else {}
