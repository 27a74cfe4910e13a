"""Unix sockets in a folder of their own: one thread, one selector, few connections each."""

import contextlib
import os
import selectors
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Final, Protocol

from fairlead.errors import UserError
from fairlead.signals import stop_signals
from fairlead.warden import folders
from fairlead.warden.session import Session, SocketEvents

CONNECTION_LIMIT: Final = 8
"""Connections of one listener at once; further ones wait in the backlog."""
_BACKLOG: Final = 64
"""The length of the backlog; a non-blocking connect beyond it fails with EAGAIN."""

SessionFactory = Callable[[socket.socket, float], Session | None]
"""Starts a session with a client; None closes the connection."""


class Timed(Protocol):
    """What has work at a certain time."""

    def deadline(self) -> float | None:
        """Return when; None: there is none to do."""

    def expire(self, now: float) -> None:
        """Do the work that is due."""


class Listener:
    """A listening socket and its sessions."""

    def __init__(
        self,
        listener: socket.socket,
        selector: selectors.BaseSelector,
        start_session: SessionFactory,
        limit: int = CONNECTION_LIMIT,
    ) -> None:
        self._listener = listener
        self._selector = selector
        self._start_session = start_session
        self._limit = limit
        self._open: dict[Session, SocketEvents] = {}
        listener.setblocking(False)
        self._listen()

    def deadline(self) -> float | None:
        """Return the next deadline of a session; None without sessions."""
        return min((session.deadline for session in self._open), default=None)

    def expire(self, now: float) -> None:
        """End the sessions whose deadline has passed."""
        for session in [each for each in self._open if each.deadline <= now]:
            self._end(session)

    def close(self) -> None:
        """End every session, and stop listening."""
        for session in list(self._open):
            self._end(session)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _listen(self) -> None:
        if len(self._open) < self._limit and self._listener not in self._selector.get_map():
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self, now: float) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the client disconnected before the accept
            return
        connection.setblocking(False)
        session = self._start_session(connection, now)
        if session is None:
            connection.close()
            return
        self._open[session] = {}
        self._register(session)
        if len(self._open) >= self._limit:
            self._selector.unregister(self._listener)

    def _step(self, session: Session, now: float) -> None:
        if session not in self._open:  # it ended in this round, on its other socket
            return
        if session.step(now):
            self._register(session)
        else:
            self._end(session)

    def _register(self, session: Session) -> None:
        registered, events_by_socket = self._open[session], session.events_by_socket()
        for connection, events in events_by_socket.items():
            if events == registered.get(connection, 0):
                continue
            if registered.get(connection):
                self._selector.unregister(connection)
            if events:  # a selector accepts no socket without events
                self._selector.register(connection, events, lambda now: self._step(session, now))
        self._open[session] = events_by_socket

    def _end(self, session: Session) -> None:
        for connection, events in self._open.pop(session).items():
            if events:
                self._selector.unregister(connection)
        session.close()
        self._listen()


def serve_until_signal(
    folder: str,
    group: int,
    factories: Mapping[str, SessionFactory],
    say: Callable[[str], None],
    limit: int = CONNECTION_LIMIT,
    timers: Sequence[Timed] = (),
) -> None:
    """Listen on a socket in the folder for each factory, open to the group, until SIGTERM or SIGINT.

    Timers are given their turn in between.
    """
    with ExitStack() as stack:
        stop = stack.enter_context(stop_signals())
        selector = stack.enter_context(selectors.DefaultSelector())
        place = stack.enter_context(folders.real_folder(folder))
        secure_folder(place, folder, group)
        listeners = []
        for name, start_session in factories.items():
            sock = stack.enter_context(listen(place, name, group))
            listeners.append(stack.enter_context(closing(Listener(sock, selector, start_session, limit))))
            say(f"listening on {os.path.join(folder, name)}")
        serve(selector, (*listeners, *timers), stop)
    say("stopped")


def serve(selector: selectors.BaseSelector, listeners: Sequence[Timed], stop: socket.socket) -> None:
    """Run until `stop` becomes readable."""
    stopped: list[float] = []
    selector.register(stop, selectors.EVENT_READ, stopped.append)
    while not stopped:
        deadlines = [due for listener in listeners if (due := listener.deadline()) is not None]
        pause = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        for key, _ in selector.select(pause):
            key.data(time.monotonic())
        for listener in listeners:
            listener.expire(time.monotonic())


def secure_folder(place: int, path: str, group: int) -> None:
    """Let the group enter an open folder, but change nothing in it.

    Then nothing in it can be swapped during use, whatever the agent put there before.
    """
    owner = os.fstat(place).st_uid
    if owner != os.geteuid():
        raise UserError(f"{path}: belongs to uid {owner}", "give the warden a folder of its own")
    os.fchmod(place, 0o700)
    folders.set_group(place, path, group)
    os.fchmod(place, 0o750)


@contextmanager
def listen(place: int, name: str, group: int) -> Iterator[socket.socket]:
    """Listen on a socket of this name in an open folder, as long as the context lasts."""
    _remove_stale(place, name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"/proc/self/fd/{place}/{name}")
        os.chown(name, -1, group, dir_fd=place, follow_symlinks=False)
        os.chmod(name, 0o660, dir_fd=place)
        listener.listen(_BACKLOG)
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=place)


def _remove_stale(place: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
            raise UserError(f"{name}: a folder has this name", "empty the folder that the warden shares")
        os.unlink(name, dir_fd=place)
