"""The warden's loop: one thread, one selector, two doors that let few in at a time."""

import contextlib
import os
import selectors
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Final, NamedTuple

from fairlead.errors import UserError
from fairlead.signals import stop_signals
from fairlead.warden import CDI_SOCKET, POD_RESOURCES_SOCKET, folders
from fairlead.warden.devices import Devices
from fairlead.warden.protocol import answer
from fairlead.warden.session import RelaySession, RequestSession, Session, Wants
from fairlead.warden.store import Say, Store

CONNECTION_LIMIT: Final = 8
"""Connections through one door at once; further ones wait outside."""
_OUTSIDE: Final = 64
"""How many wait; those who do not want to wait are told to try again (EAGAIN)."""

Begin = Callable[[socket.socket, float], Session | None]
"""Begins a session with a client; None sends it away."""


class WardenConfig(NamedTuple):
    """What the warden is to do, for which group, and where."""

    folder: str
    group: int
    pod_resources: str | None = None
    cdi: str | None = None
    device_root: str = ""


class Listener:
    """A listening socket and the sessions that came through it."""

    def __init__(self, listener: socket.socket, selector: selectors.BaseSelector, begin: Begin) -> None:
        self._listener = listener
        self._selector = selector
        self._begin = begin
        self._open: dict[Session, Wants] = {}
        listener.setblocking(False)
        self._listen()

    def deadline(self) -> float | None:
        """Return when the next session will have taken too long."""
        return min((session.deadline for session in self._open), default=None)

    def expire(self, now: float) -> None:
        """End the sessions that took too long."""
        for session in [each for each in self._open if each.deadline <= now]:
            self._end(session)

    def close(self) -> None:
        """End every session and let nobody in any more."""
        for session in list(self._open):
            self._end(session)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _listen(self) -> None:
        if len(self._open) < CONNECTION_LIMIT and self._listener not in self._selector.get_map():
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self, now: float) -> None:
        try:
            line, _ = self._listener.accept()
        except OSError:  # the client went away before it was let in
            return
        line.setblocking(False)
        session = self._begin(line, now)
        if session is None:
            line.close()
            return
        self._open[session] = {}
        self._watch(session)
        if len(self._open) >= CONNECTION_LIMIT:
            self._selector.unregister(self._listener)

    def _step(self, session: Session, now: float) -> None:
        if session not in self._open:  # it ended in this very round, on its other socket
            return
        if session.step(now):
            self._watch(session)
        else:
            self._end(session)

    def _watch(self, session: Session) -> None:
        watched, wants = self._open[session], session.wants()
        for line, events in wants.items():
            if events == watched.get(line, 0):
                continue
            if watched.get(line):
                self._selector.unregister(line)
            if events:  # a selector takes no line on which nothing is awaited
                self._selector.register(line, events, lambda now: self._step(session, now))
        self._open[session] = wants

    def _end(self, session: Session) -> None:
        for line, events in self._open.pop(session).items():
            if events:
                self._selector.unregister(line)
        session.close()
        self._listen()


def run(wish: WardenConfig, say: Say) -> None:
    """Serve until SIGTERM or SIGINT comes."""
    with ExitStack() as stack:
        stop = stack.enter_context(stop_signals())
        selector = stack.enter_context(selectors.DefaultSelector())
        place = stack.enter_context(folders.real_folder(wish.folder))
        secure_folder(place, wish.folder, wish.group)
        doors = []
        for name, begin in session_factories(wish, say).items():
            listener = stack.enter_context(listen(place, name, wish.group))
            doors.append(stack.enter_context(closing(Listener(listener, selector, begin))))
            say(f"listening on {os.path.join(wish.folder, name)}")
        serve(selector, doors, stop)
    say("stopped")


def serve(selector: selectors.BaseSelector, doors: list[Listener], stop: socket.socket) -> None:
    """Run until something can be read from `stop`."""
    stopped: list[float] = []
    selector.register(stop, selectors.EVENT_READ, stopped.append)
    while not stopped:
        deadlines = [due for door in doors if (due := door.deadline()) is not None]
        pause = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        for key, _ in selector.select(pause):
            key.data(time.monotonic())
        for door in doors:
            door.expire(time.monotonic())


def session_factories(wish: WardenConfig, say: Say) -> dict[str, Begin]:
    """Return what begins behind each socket that is wished for."""
    found: dict[str, Begin] = {}
    if wish.pod_resources is not None:
        kubelet = wish.pod_resources
        found[POD_RESOURCES_SOCKET] = lambda line, now: open_relay(line, kubelet, now)
    if wish.cdi is not None:
        store = Store(wish.cdi, Devices(wish.device_root), say)
        found[CDI_SOCKET] = lambda line, now: RequestSession(
            line, lambda asked: answer(asked, store, say), now
        )
    return found


def open_relay(line: socket.socket, path: str, now: float) -> Session | None:
    """Connect a client to the socket at `path`; a new connection each time, so that restarts are survived."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.setblocking(False)
    try:
        server.connect(path)
    except OSError:
        server.close()
        return None
    return RelaySession(line, server, now)


def secure_folder(place: int, path: str, group: int) -> None:
    """Make an open folder one that the group may enter, but in which it may change nothing.

    Nothing in there can be swapped under us then, whatever the agent put there before.
    """
    owner = os.fstat(place).st_uid
    if owner != os.geteuid():
        raise UserError(f"{path}: it belongs to uid {owner}", "give the warden a folder of its own")
    os.fchmod(place, 0o700)
    folders.set_group(place, path, group)
    os.fchmod(place, 0o750)


@contextmanager
def listen(place: int, name: str, group: int) -> Iterator[socket.socket]:
    """Listen on a socket of this name in an open folder; it goes when we go."""
    _make_way(place, name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"/proc/self/fd/{place}/{name}")
        os.chown(name, -1, group, dir_fd=place, follow_symlinks=False)
        os.chmod(name, 0o660, dir_fd=place)
        listener.listen(_OUTSIDE)
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=place)


def _make_way(place: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
            raise UserError(f"{name}: a folder is in its place", "empty the folder that the warden shares")
        os.unlink(name, dir_fd=place)
