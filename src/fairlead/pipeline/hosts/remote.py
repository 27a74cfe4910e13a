"""The other hosts of a run, as its coordinator sees them."""

import selectors
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final
from uuid import uuid4

from fairlead.pipeline.control import Message
from fairlead.pipeline.fuse import RunPlan
from fairlead.pipeline.hosts.messages import (
    CONTROL,
    MessageQueue,
    call_from_json,
    positions_from_json,
    state_from_json,
    state_to_json,
)
from fairlead.pipeline.link.dial import Dialer
from fairlead.pipeline.link.gateway import LinkGateway
from fairlead.pipeline.link.joins import LinkJoin, RingJoin
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.place import PlaceEvents, Positions, RemotePlace
from fairlead.pipeline.progress import Position, WorkedOn
from fairlead.pipeline.spec import HostSpec
from fairlead.units import Bytes

PATIENCE: Final = 10.0
"""Seconds that a host may be away before its workers count as ended; then they are started there again."""
_END_LIMIT: Final = 2.0
_ATTEMPTS: Final = 1 << 20
"""Attempts of one coordinator, at most: those of the next one are later."""
_IDLE: Final = WorkedOn(0, 0, 0, 0.0)


class RemoteHost:
    """A `RemotePlace`."""

    def __init__(
        self,
        host: HostSpec,
        run: str,
        tls: HostTlsFiles | None,
        selector: selectors.BaseSelector,
        events: PlaceEvents,
        attempts: int = 0,
    ) -> None:
        self._host = host
        self._run = run
        self._tls = tls
        self._selector = selector
        self._events = events
        self._running: set[str] = set()
        self._positions: dict[str, Mapping[int, Position]] = {}
        self._status: Message = {}
        self._trouble = ""
        self._attempts = attempts
        self._leaves_by = 0.0
        """When it need not have ended the run any more; 0: it has not been asked to."""
        self._connect()

    def spawn(self, worker: str, settings: Message, known: Mapping[int, Position]) -> None:
        """Let the host start the process of a worker."""
        self._running.add(worker)
        self._positions.setdefault(worker, known)
        body = {"do": "spawn", "worker": worker, "settings": settings}
        self._send(body | {"known": {str(stream): list(at) for stream, at in known.items()}})

    def tell(self, worker: str, message: Message) -> None:
        """Send a message to a worker."""
        self._send({"do": "tell", "worker": worker, "message": message})

    def restore(self, worker: str, message: Message, state: bytes) -> None:
        """Send a checkpoint to a worker."""
        self._send({"do": "restore", "worker": worker, "message": message, "state": state_to_json(state)})

    def memory(self) -> Mapping[str, Bytes]:
        """Return what workers with a limit held when the host last said so."""
        held = self._status.get("memory", {})
        return {name: Bytes(int(size)) for name, size in held.items() if name in self._running}

    def kill(self, worker: str) -> None:
        """End a process at once."""
        self._send({"do": "kill", "worker": worker})

    def join_ring(self, join: RingJoin) -> None:
        """Make a ring between two workers of the host."""
        self._send({"do": "ring", "join": asdict(join)})

    def open_link(self, join: LinkJoin) -> None:
        """Join a worker of the host with one of another place."""
        self._send({"do": "link", "join": asdict(join)})

    def drop_link(self, session: str) -> None:
        """End a link with the frames that are on it."""
        self._send({"do": "drop", "session": session})

    def calls(self) -> Mapping[str, WorkedOn]:
        """Return what the workers were doing when the host last said so, by the clock of this machine."""
        offset = self._queue.session.clock.seconds
        calls = self._status.get("calls", {})
        return {name: call_from_json(body, offset) for name, body in calls.items() if name in self._running}

    def positions(self) -> Positions:
        """Return what the sinks had taken when the host last said so."""
        return self._positions

    def edge_counts(self) -> dict[str, Any]:
        """Return what was dropped before links that begin at the host, by edge."""
        counts: dict[str, Any] = self._status.get("edges", {})
        return counts

    def status(self) -> dict[str, Any]:
        """Return what is known of the host."""
        session = self._queue.session
        return {
            "address": self._host.address,
            "connected": session.is_connected,
            "connections": session.connections,
            "round_trip": session.clock.round_trip,
            "clock_offset": session.clock.seconds,
            "cores": self._status.get("cores"),
            "processes": self._status.get("processes", {}),
            "links": self._status.get("links", []),
            "transfers": self._status.get("transfers", []),
            "counters": self._status.get("counters", {}),
            "certificate_ends": self._status.get("certificate_ends"),
        }

    def tick(self) -> None:
        """Notice a host that is away for too long, or has lost the run."""
        session = self._queue.session
        now = time.monotonic()
        if session.is_connected:
            self._seen = now
        if session.is_over:
            self._lose(self._dialer.refusal or "it has ended the run")
        elif now - self._seen > PATIENCE:
            self._lose(f"it cannot be reached: {self._trouble or 'no answer'}")

    @property
    def host(self) -> HostSpec:
        """The host as the file had it when it was connected."""
        return self._host

    @property
    def attempts(self) -> int:
        """How often the run was begun here."""
        return self._attempts

    @property
    def is_empty(self) -> bool:
        """Whether no process of the run is here."""
        return not self._running

    def close(self) -> None:
        """Let the host end every process of the run, if it can be reached."""
        self.leave()
        session = self._queue.session
        with session.changed:
            while not self.has_left:
                session.changed.wait(0.1)
        self._disconnect()

    def leave(self) -> None:
        """Let the host end the run, without waiting for it; `close` must follow."""
        if not self._leaves_by:
            self._leaves_by = time.monotonic() + _END_LIMIT
            self._send({"do": "finish"})
            self._queue.session.close()
            self._dialer.finish()  # a host that has ended the run would begin it again

    @property
    def has_left(self) -> bool:
        """Whether the host has ended the run, or does not answer."""
        session = self._queue.session
        return session.is_over or not session.is_connected or time.monotonic() >= self._leaves_by

    def _connect(self) -> None:
        self._attempts += 1
        self._queue = MessageQueue({"run": self._run, "attempt": self._attempts})
        self._seen = time.monotonic()
        self._selector.register(self._queue.fileno(), selectors.EVENT_READ, self._read)
        self._dialer = Dialer(self._queue.session, self._host.address, self._tls, CONTROL, self._on_trouble)

    def _disconnect(self) -> None:
        self._selector.unregister(self._queue.fileno())
        self._dialer.stop()
        self._queue.close()

    def _on_trouble(self, line: str) -> None:
        self._trouble = line

    def _send(self, message: Message) -> None:
        self._queue.send(message)

    def _lose(self, reason: str) -> None:
        """Count every worker of the host as ended, and connect with the host as with a new one."""
        self._read()
        self._disconnect()
        self._connect()
        lost, self._running = sorted(self._running), set()
        self._status = {key: value for key, value in self._status.items() if key == "edges"}
        for worker in lost:
            line = f"host {self._host.name} at {self._host.address} was lost: {reason}"
            self._events.on_message(worker, {"event": "failed", "line": line})
            self._events.on_exit(worker, "its host", _IDLE)

    def _read(self) -> None:
        for message in self._queue.receive():
            match message["event"]:
                case "status":
                    self._status = message
                    self._positions |= positions_from_json(message["positions"])
                case "worker" if message["worker"] in self._running:
                    body = message["message"]
                    if "state" in body:
                        body["state"] = state_from_json(body["state"])
                    self._events.on_message(message["worker"], body)
                case "exited" if message["worker"] in self._running:
                    self._running.discard(message["worker"])
                    self._positions |= positions_from_json(message["positions"])
                    self._status["edges"] = message["edges"]
                    at = call_from_json(message["at"], self._queue.session.clock.seconds)
                    self._events.on_exit(message["worker"], message["how"], at)


class RemoteHosts:
    """The other hosts of a plan, and the links from this machine to them."""

    def __init__(
        self,
        plan: RunPlan,
        tls: HostTlsFiles | None,
        replayable: Mapping[str, bool],
        run: str = "",
        coordinator: int = 0,
        candidates: Iterable[str] = (),
    ) -> None:
        """Take what hosts say of their sources, name and coordinator of a kept run, and further hosts."""
        self.replayable = replayable
        self._run = run or f"{plan.spec.name}-{uuid4().hex}"
        self._attempts = coordinator * _ATTEMPTS
        self.links = LinkGateway(self._run, tls)
        self._tls = tls
        used = {worker.host for worker in plan.workers} | {*candidates}
        self._hosts = [host for host in plan.spec.hosts if host.name in used]
        self._connected: dict[str, RemoteHost] = {}
        """By address, also those that were left."""

    def open(self, selector: selectors.BaseSelector, events: PlaceEvents) -> Mapping[str, RemotePlace]:
        """Connect with every host, and return them by address."""
        return {host.address: self.connect(host, selector, events) for host in self._hosts}

    def connect(self, host: HostSpec, selector: selectors.BaseSelector, events: PlaceEvents) -> RemotePlace:
        """Connect with one more host, or again with one that was left: it ends what it has of the run."""
        known = self._connected.get(host.address)
        attempts = self._attempts if known is None else known.attempts
        made = RemoteHost(host, self._run, self._tls, selector, events, attempts)
        self._connected[host.address] = made
        return made

    def close(self) -> None:
        """End every link."""
        self.links.close()
