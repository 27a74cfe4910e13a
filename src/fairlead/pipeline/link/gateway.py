"""The links of a run on this host: each is a ring to a worker here, and a session with another host."""

import socket
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from fairlead.pipeline.control import contract_from_json
from fairlead.pipeline.link.dial import Dialer, serve_session
from fairlead.pipeline.link.joins import LinkJoin
from fairlead.pipeline.link.jpeg import from_jpeg, to_jpeg
from fairlead.pipeline.link.pump import DROPPING, DroppingReceiver, as_they_are, start_pump
from fairlead.pipeline.link.receiver import LinkReceiver
from fairlead.pipeline.link.rpc import Message, Received, StreamRefusedError
from fairlead.pipeline.link.rpc_server import ServerStream
from fairlead.pipeline.link.sender import LinkSender
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.ring.pair import RingReceiver, RingSender

LINK: Final = "Link"
"""The method of gRPC."""
PATIENCE: Final = 10.0
"""Seconds that a stream of a link waits for its run and its link: the hosts of a run begin in any order."""


class _LinkEnd:
    def __init__(self, join: LinkJoin, link: LinkSender | LinkReceiver) -> None:
        self.join = join
        self.link = link
        self.buffer: DroppingReceiver | None = None
        self.dialer: Dialer | None = None
        self.trouble = ""
        self.is_replaced = False
        """The coordinator has joined its worker again, with another session."""

    @property
    def place(self) -> tuple[str, str, int, int, bool]:
        """Which end of which link of which worker this is."""
        return self.join.worker, self.join.edge, self.join.path, self.join.index, self.join.sends

    def replace(self) -> None:
        """Leave the session: its frames are not wanted any more, and neither are its faults."""
        self.is_replaced = True
        self.link.close()


class LinkGateway:
    """The ends of links of one run."""

    def __init__(self, run: str, tls: HostTlsFiles | None, patience: float = PATIENCE) -> None:
        """Take how many seconds a stream waits until the coordinator has named its link here as well."""
        self._run = run
        self._patience = patience
        self._tls = tls
        self._faults: deque[tuple[_LinkEnd, str]] = deque()
        self._ends: dict[str, _LinkEnd] = {}
        self._changed = threading.Condition()
        self._closed = False

    def open(self, join: LinkJoin, ring: socket.socket) -> None:
        """Take a ring over, and pass its frames on to the other host or from it."""
        hello = {"run": self._run, "session": join.session}
        contract = contract_from_json(join.contract)
        link = LinkSender(hello, join.slots) if join.sends else LinkReceiver(hello, join.slots)
        end = _LinkEnd(join, link)

        def fault(line: str) -> None:
            self._faults.append((end, f"edge {join.edge}: {line}"))

        name = f"pump {join.edge}"
        if isinstance(link, LinkSender):
            receiver: RingReceiver | DroppingReceiver = RingReceiver(ring)
            if contract.policy in DROPPING:
                receiver = end.buffer = DroppingReceiver(receiver, contract)
            start_pump(name, receiver, link, fault, to_jpeg if join.encode else as_they_are)
        else:
            sender = RingSender(ring, join.slots)
            start_pump(name, link, sender, fault, from_jpeg if join.encode else as_they_are)
        with self._changed:
            replaced = [other for other in self._ends.values() if other.place == end.place]
            self._ends[join.session] = end
            self._changed.notify_all()
        for other in replaced:
            other.replace()
        if join.dial:
            end.dialer = Dialer(
                link.session, join.dial, self._tls, LINK, lambda line: setattr(end, "trouble", line)
            )

    def drop(self, session: str) -> None:
        """End a link with the frames that are on it."""
        end = self._ends.get(session)
        if end is not None:
            end.replace()
            end.link.session.abandon()
            if end.dialer is not None:
                end.dialer.stop()

    def take_faults(self) -> list[tuple[str, str]]:
        """Return the workers whose links cannot go on, each once, and why."""
        faults = [self._faults.popleft() for _ in range(len(self._faults))]
        return [(end.join.worker, line) for end, line in faults if not end.is_replaced]

    def edge_counts(self) -> dict[str, Any]:
        """Return what was dropped before links, by edge."""
        edges: dict[str, Any] = {}
        for end in self._all():
            if end.buffer is not None:
                dropped = edges.setdefault(end.join.edge, {"dropped": {}})["dropped"]
                for reason, number in end.buffer.dropped().items():
                    dropped[reason] = dropped.get(reason, 0) + number
        return edges

    def serve(self, session: str, stream: ServerStream, hello: Received) -> Iterator[Message]:
        """Yield what this host sends on a stream that belongs to a link of the run."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or session in self._ends, self._patience)
            end = self._ends.get(session)
            if self._closed:  # the run may begin here again: the other host connects once more
                return
        if end is None or end.join.dial or (end.link.session.is_over and not end.link.session.has_left):
            raise StreamRefusedError(f"run {self._run} has no link {session[:80]} here")
        yield from serve_session(end.link.session, stream, hello)

    def states(self) -> list[dict[str, Any]]:
        """Return how the links are doing."""
        return [
            {
                "edge": end.join.edge,
                "sends": end.join.sends,
                "connections": end.link.session.connections,
                "round_trip": end.link.session.clock.round_trip,
                "clock_offset": end.link.session.clock.seconds,
                "trouble": end.trouble,
            }
            for end in self._all()
            if not end.link.session.is_over
        ]

    def transfers(self) -> list[dict[str, Any]]:
        """Return by route what links have sent since the run began, and how long that took the transport."""
        sums: dict[tuple[str, str], tuple[int, float]] = {}
        for end in self._all():
            if end.join.sends:
                route = end.join.route[0], end.join.route[1]
                size, seconds = sums.get(route, (0, 0.0))
                session = end.link.session
                sums[route] = size + session.sent_bytes, seconds + session.send_seconds
        return [
            {"from": route[0], "to": route[1], "bytes": size, "seconds": seconds}
            for route, (size, seconds) in sums.items()
        ]

    def _all(self) -> list[_LinkEnd]:
        with self._changed:
            return list(self._ends.values())

    def close(self) -> None:
        """End every link."""
        with self._changed:
            self._closed = True
            ends = list(self._ends.values())
            self._changed.notify_all()
        for end in ends:
            if end.dialer is not None:
                end.dialer.stop()
            end.link.session.abandon()
