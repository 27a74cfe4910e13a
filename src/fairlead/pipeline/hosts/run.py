"""One run on a host: its processes and links, as its coordinator wants them."""

import selectors
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from fairlead.pipeline.control import Message
from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.hosts.messages import (
    MessageQueue,
    call_to_json,
    positions_from_json,
    positions_to_json,
    state_from_json,
    state_to_json,
)
from fairlead.pipeline.hosts.settings import HostSettings
from fairlead.pipeline.link.certificate_clock import CertificateClock
from fairlead.pipeline.link.gateway import LinkGateway
from fairlead.pipeline.link.joins import LinkJoin, RingJoin
from fairlead.pipeline.place import LocalPlace
from fairlead.pipeline.progress import WorkedOn

_TICK: Final = 0.25


class HostRun:
    """The part of a run that is on this host; it ends with its coordinator."""

    def __init__(self, run: str, attempt: int, settings: HostSettings, log: Callable[[str], None]) -> None:
        """Take which attempt of the coordinator to have this run here it is."""
        self.run = run
        self.attempt = attempt
        self.messages = MessageQueue({"run": run, "attempt": attempt})
        self.gateway = LinkGateway(run, settings.tls, settings.patience)
        self._certificate = CertificateClock(settings.tls) if settings.tls else None
        self.counters: Callable[[], dict[str, int]] = dict
        self._folder = settings.folder
        self._grace = settings.grace
        self._log = log
        self._selector = selectors.DefaultSelector()
        self._place = LocalPlace(self._selector, self, self.gateway)
        self._stop = threading.Event()
        self._seen = time.monotonic()
        self._connected = 0
        self._lock = threading.Lock()
        self._report_at = 0.0
        self._on_end: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._work, name=f"run {run}", daemon=True)

    def start(self, on_end: Callable[[], None]) -> None:
        """Begin; the callback is called once nothing of the run is left."""
        self._on_end = on_end
        self._thread.start()

    def end(self) -> None:
        """End every process of the run, and wait for that."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def on_connection(self, change: int) -> None:
        """Count the streams of the coordinator."""
        with self._lock:  # an old stream ends while a new one begins
            self._connected += change
            self._seen = time.monotonic()

    def on_message(self, worker: str, message: Message) -> None:
        """Pass on what a worker says; a checkpoint that is too long for a message is left out."""
        if "state" in message:
            message = message | {"state": state_to_json(message["state"])}
        self.messages.send({"event": "worker", "worker": worker, "message": message})

    def on_exit(self, worker: str, how: str, at: WorkedOn) -> None:
        """Pass on that a worker has ended."""
        body: Message = {"event": "exited", "worker": worker, "how": how, "at": call_to_json(at)}
        body["edges"] = self._place.edge_counts()
        self.messages.send(body | {"positions": positions_to_json(self._place.positions())})

    def _work(self) -> None:
        self._selector.register(self.messages, selectors.EVENT_READ, self._read)
        try:
            while not self._stop.is_set() and not self._is_abandoned():
                for key, _ in self._selector.select(_TICK):
                    key.data()
                self._report()
        except (FrameError, KeyError, TypeError, ValueError) as error:
            self._log(f"run {self.run}: its coordinator sent nonsense: {type(error).__name__}: {error}")
        finally:
            self._place.close()
            self.gateway.close()
            self.messages.session.abandon()
            self._selector.close()
            self.messages.close()
            self._on_end()

    def _is_abandoned(self) -> bool:
        if self.messages.session.is_over:
            self._log(f"run {self.run}: ended by its coordinator")
            return True
        if self._connected or time.monotonic() - self._seen < self._grace:
            return False
        self._log(f"run {self.run}: its coordinator is away: every process of it ends")
        return True

    def _read(self) -> None:
        for message in self.messages.receive():
            self._handle(message)

    def _handle(self, message: Message) -> None:
        match message["do"]:
            case "spawn":
                settings = message["settings"] | {"folder": self._folder}
                known = positions_from_json({"": message["known"]})[""]
                self._place.spawn(message["worker"], settings, known)
            case "tell":
                self._place.tell(message["worker"], message["message"])
            case "restore":
                self._place.restore(message["worker"], message["message"], state_from_json(message["state"]))
            case "kill":
                self._place.kill(message["worker"])
            case "ring":
                self._place.join_ring(RingJoin(**message["join"]))
            case "link":
                self._place.open_link(LinkJoin(**message["join"]))
            case "drop":
                self._place.drop_link(message["session"])
            case "finish":
                self._stop.set()

    def _report(self) -> None:
        self._place.tick()
        if time.monotonic() < self._report_at:  # an ack of the last report wakes this thread as well
            return
        self._report_at = time.monotonic() + _TICK
        body: dict[str, Any] = {"event": "status", **self._place.status()}
        body["certificate_ends"] = self._certificate.ends() if self._certificate else None
        body["edges"] = self._place.edge_counts()
        body["memory"] = self._place.memory()
        body["calls"] = {worker: call_to_json(call) for worker, call in self._place.calls().items()}
        body["positions"] = positions_to_json(self._place.positions())
        self.messages.send_news(body | {"counters": self.counters()})
