"""Two sessions of a link and the connections between them, without sockets, threads or a clock that runs."""

from collections import deque
from dataclasses import dataclass, field

from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.link.pace import ChunkPace
from fairlead.pipeline.link.session import LinkSession
from fairlead.pipeline.link.window import OpenMessage

_LONG = bytes(ChunkPace().most + 1)
"""A message of two chunks."""


def open_bytes(first: memoryview, total: int) -> OpenMessage[bytearray]:
    """Make room for any message."""
    data = bytearray(total)
    return OpenMessage(data, memoryview(data), 0)


class End:
    """One side: a session, what it was given to send, and what has reached it."""

    def __init__(self, depth: int, world: "LinkWorld") -> None:
        self.session: LinkSession[bytearray] = LinkSession(
            {"run": "r"}, depth, open_bytes, self._arrive, now=lambda: world.now
        )
        self.posted = 0
        self.received: list[int] = []
        self.held = 0
        """Messages that are received and not released."""

    def post(self) -> None:
        """Send the next message if there is a credit: its number, and now and then much behind it."""
        if self.session.credits:
            number = self.posted.to_bytes(4, "little")
            self.session.post([number, _LONG] if self.posted % 4 == 1 else [number])
            self.posted += 1

    def release(self) -> None:
        """Give one credit back."""
        if self.held:
            self.held -= 1
            self.session.release()

    def _arrive(self, data: bytearray) -> None:
        self.received.append(int.from_bytes(data[:4], "little"))
        self.held += 1


@dataclass
class Wire:
    """A connection: it delivers in order, late, or not at all."""

    near: int
    """Its number at the side that has dialled."""
    far: int | None = None
    """Its number at the other side; None: nothing has arrived there."""
    ended: set[bool] = field(default_factory=set)
    """At which sides it has ended: at the near one, at the far one."""
    greeted: set[bool] = field(default_factory=set)
    to_far: deque[bytes] = field(default_factory=deque)
    to_near: deque[bytes] = field(default_factory=deque)


class LinkWorld:
    """Both sides, and every connection that was ever made: an old one may still deliver."""

    def __init__(self, depth: int) -> None:
        self.now = 100.0
        self.depth = depth
        self.near = End(depth, self)
        self.far = End(depth, self)
        self.wires: list[Wire] = []

    def dial(self) -> Wire:
        """Begin another connection; the other side notices with the first message on it."""
        for wire in self.wires:
            wire.ended.add(True)
        self.wires.append(Wire(self.near.session.connect()))
        return self.wires[-1]

    def say(self, wire: Wire, *, is_near: bool) -> bool:
        """Let one side send its next message on a connection; False: it has none."""
        session = self.near.session if is_near else self.far.session
        number = wire.near if is_near else wire.far
        if number is None:
            return False
        is_first = is_near not in wire.greeted
        wire.greeted.add(is_near)
        hello = session.greet(number) if is_first else None
        pieces = session.take(number) if not is_first else None if hello is None else (hello,)
        if pieces is not None:
            (wire.to_far if is_near else wire.to_near).append(b"".join(pieces))
        return pieces is not None

    def deliver(self, wire: Wire, *, to_near: bool) -> bool:
        """Let one message arrive; False: none is under way."""
        queue = wire.to_near if to_near else wire.to_far
        if not queue:
            return False
        message = queue.popleft()
        if to_near:
            self.near.session.receive(wire.near, message)
        elif wire.far is not None:
            self.far.session.receive(wire.far, message)
        else:
            wire.far = self.far.session.connect()
            for other in self.wires:
                if other is not wire:
                    other.ended.add(False)
            try:
                self.far.session.receive(wire.far, message)
            except FrameError:
                assert wire is not self.wires[-1], "only a connection that was replaced may be refused"
                self.cut(wire, is_near=False)
        return True

    def cut(self, wire: Wire, *, is_near: bool) -> None:
        """Let one side notice that a connection has ended."""
        wire.ended.add(is_near)
        if is_near:
            self.near.session.disconnect(wire.near)
        elif wire.far is not None:
            self.far.session.disconnect(wire.far)

    def check(self) -> None:
        """Assert what is always so."""
        for end, other in ((self.near, self.far), (self.far, self.near)):
            assert end.received == list(range(len(end.received))), "each message once, and in order"
            assert len(end.received) <= other.posted
            assert 0 <= other.session.credits <= self.depth
            assert other.session.credits + end.held <= self.depth
            assert not end.session.is_over

    def settle(self) -> None:
        """Go on until neither side has anything to say, and release every message; dial only if needed.

        A new connection would hide that something was forgotten on the one that works.
        """
        wire = self.wires[-1] if self.wires and not self.wires[-1].ended else self.dial()
        quiet = 0
        while quiet < 3:
            moved = False
            for is_near in (True, False):
                while self.say(wire, is_near=is_near) and self.now < 200.0:
                    moved = True
                while self.deliver(wire, to_near=not is_near):
                    moved = True
            for end in (self.near, self.far):
                while end.held:
                    end.release()
                    moved = True
            self.now += 0.006  # longer than a credit waits for others, shorter than the pause between pings
            quiet = 0 if moved else quiet + 1
            assert self.now < 200.0, "the two sides never come to rest"
        self.check()
