"""Where workers run: the processes of a run on one machine, started, joined, watched and ended."""

import mmap
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from fairlead.cores import usable_cores
from fairlead.pipeline.checkpoints import read_memory, write_memory
from fairlead.pipeline.control import Channel, Message
from fairlead.pipeline.link.joins import LinkJoin, RingJoin
from fairlead.pipeline.programs.process import USER_PYTHONPATH
from fairlead.pipeline.progress import Position, ProgressPage, WorkedOn
from fairlead.pipeline.ring.pair import ring_pair
from fairlead.pipeline.spec import HostSpec
from fairlead.units import Bytes

THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""How many threads numeric libraries use; a worker has one for each of its cores."""
Positions = Mapping[str, Mapping[int, Position]]
"""By worker and stream: the last frame that a sink has taken."""


class PlaceEvents(Protocol):
    """What receives the news of a place."""

    def on_message(self, worker: str, message: Message) -> None:
        """Take what a worker says."""
        ...

    def on_exit(self, worker: str, how: str, at: WorkedOn) -> None:
        """Take note of a worker that has ended."""
        ...


class LinkOpener(Protocol):
    """What makes links between hosts."""

    def open(self, join: LinkJoin, ring: socket.socket) -> None:
        """Take a ring over, and pass its frames on to the other host or from it."""
        ...

    def drop(self, session: str) -> None:
        """End a link with the frames that are on it."""
        ...

    def take_faults(self) -> list[tuple[str, str]]:
        """Return the workers whose links cannot go on, each once, and why."""
        ...

    def edge_counts(self) -> dict[str, Any]:
        """Return what was dropped before links, by edge."""
        ...

    def states(self) -> list[dict[str, Any]]:
        """Return how the links are doing."""
        ...

    def transfers(self) -> list[dict[str, Any]]:
        """Return what links have sent to other hosts, and how long that took."""
        ...


class Place(Protocol):
    """A machine on which workers of a run are."""

    def spawn(self, worker: str, settings: Message, known: Mapping[int, Position]) -> None:
        """Start the process of a worker; `known` is what its sink has taken, if the place is new."""
        ...

    def tell(self, worker: str, message: Message) -> None:
        """Send a message to a worker; it is lost if the worker has ended."""
        ...

    def restore(self, worker: str, message: Message, state: bytes) -> None:
        """Send a checkpoint to a worker."""
        ...

    def memory(self) -> Mapping[str, Bytes]:
        """Return what the workers with a limit hold."""
        ...

    def kill(self, worker: str) -> None:
        """End the process of a worker at once."""
        ...

    def join_ring(self, join: RingJoin) -> None:
        """Make a ring between two workers of this place."""
        ...

    def open_link(self, join: LinkJoin) -> None:
        """Join a worker of this place with one of another place."""
        ...

    def drop_link(self, session: str) -> None:
        """End a link with the frames that are on it; nothing if it is not known here."""
        ...

    def calls(self) -> Mapping[str, WorkedOn]:
        """Return what the running workers are doing, by the clock of this machine."""
        ...

    def positions(self) -> Positions:
        """Return what the sinks have taken, also those that have ended."""
        ...

    def status(self) -> dict[str, Any]:
        """Return the process numbers and whatever else is known of the place."""
        ...

    def edge_counts(self) -> dict[str, Any]:
        """Return what was dropped before links that begin here, by edge."""
        ...

    def tick(self) -> None:
        """Do what is due now and then."""
        ...

    def close(self) -> None:
        """Leave no process behind."""
        ...


class RemotePlace(Place, Protocol):
    """Another machine on which workers of a run are: it can be left while the run goes on."""

    @property
    def host(self) -> HostSpec:
        """The host as the file had it when it was connected."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether no process of the run is here."""
        ...

    @property
    def has_left(self) -> bool:
        """Whether the host has ended the run, or does not answer."""
        ...

    def leave(self) -> None:
        """Let the host end the run, without waiting for it; `close` must follow."""
        ...


class _Process:
    """A running worker."""

    def __init__(self, child: subprocess.Popen[bytes], channel: Channel) -> None:
        self.child = child
        self.channel = channel
        self.descriptor = os.pidfd_open(child.pid)

    def close(self) -> None:
        os.close(self.descriptor)
        self.channel.close()


class LocalPlace:
    """The workers of a run on this machine."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        events: PlaceEvents,
        links: LinkOpener | None = None,
        held: tuple[int, ...] = (),
    ) -> None:
        """Take a selector whose `data` is called when its descriptor is readable.

        `held` are descriptors that every worker keeps open as long as it lives: locks end with the last one.
        """
        self._selector = selector
        self._events = events
        self._links = links
        self._held = held
        self._processes: dict[str, _Process] = {}
        self._pages: dict[str, ProgressPage] = {}
        self._limited: set[str] = set()
        """Workers whose memory is limited."""
        self._cores = usable_cores()

    def spawn(self, worker: str, settings: Message, known: Mapping[int, Position]) -> None:
        """Start the process of a worker."""
        if worker not in self._pages:
            self._pages[worker] = ProgressPage.create()
            for stream, position in known.items():
                self._pages[worker].acknowledge(stream, position)
        if settings["stages"][0]["memory"] is not None:
            self._limited.add(worker)
        ours, theirs = Channel.pair()
        command = [sys.executable, "-m", "fairlead.pipeline.worker", str(theirs.fileno()), str(os.getpid())]
        threads = dict.fromkeys(THREADS, str(len(settings["cores"]) or 1))
        child = subprocess.Popen(  # noqa: S603 - our own module, in this interpreter
            command,
            env={
                **os.environ,
                **threads,
                USER_PYTHONPATH: os.environ.get("PYTHONPATH", ""),
                "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
            },
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        process = _Process(child, ours)
        self._processes[worker] = process
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._read_messages(worker))
        self._selector.register(process.descriptor, selectors.EVENT_READ, lambda: self._reap(worker))
        page = self._pages[worker].descriptor
        self._send(worker, settings | {"path": sys.path}, (page, *self._held))

    def tell(self, worker: str, message: Message) -> None:
        """Send a message to a worker."""
        self._send(worker, message)

    def restore(self, worker: str, message: Message, state: bytes) -> None:
        """Send a checkpoint to a worker, in memory of its own: a message would be too long."""
        descriptor = write_memory(state)
        self._send(worker, message, (descriptor,))
        os.close(descriptor)

    def memory(self) -> Mapping[str, Bytes]:
        """Return what the workers with a limit hold."""
        pids = {name: process.child.pid for name, process in self._processes.items()}
        return {name: resident_bytes(pid) for name, pid in pids.items() if name in self._limited}

    def kill(self, worker: str) -> None:
        """End a process at once."""
        if worker in self._processes:
            self._processes[worker].child.kill()

    def join_ring(self, join: RingJoin) -> None:
        """Make a ring, and hand its ends over."""
        sender, receiver = ring_pair(join.slots)
        with sender, receiver:
            both = {"edge": join.edge, "path": join.path}
            output = {"do": "output", "index": join.output, "links": join.outputs, "slots": join.slots}
            self._send(join.sender, both | output | {"share": join.share}, (sender.fileno(),))
            entry = {"do": "input", "index": join.input, "links": join.inputs}
            self._send(join.receiver, both | entry, (receiver.fileno(),))

    def open_link(self, join: LinkJoin) -> None:
        """Make a ring to a worker, and hand its other end to the link."""
        assert self._links is not None, "a plan with hosts comes with what makes links"
        sender, receiver = ring_pair(join.slots)
        ours, theirs = (receiver, sender) if join.sends else (sender, receiver)
        with theirs:
            message = {"do": "output" if join.sends else "input", "edge": join.edge, "index": join.index}
            message |= {"slots": join.slots, "path": join.path, "links": join.links, "share": join.share}
            self._send(join.worker, message, (theirs.fileno(),))
        self._links.open(join, ours)

    def drop_link(self, session: str) -> None:
        """End a link with the frames that are on it."""
        if self._links is not None:
            self._links.drop(session)

    def calls(self) -> Mapping[str, WorkedOn]:
        """Return what the running workers are doing."""
        return {name: self._pages[name].read() for name in self._processes}

    def positions(self) -> Positions:
        """Return what the sinks have taken."""
        return {name: page.positions() for name, page in self._pages.items()}

    def status(self) -> dict[str, Any]:
        """Return the process numbers, and the cores that processes here may use."""
        body: dict[str, Any] = {
            "processes": {name: process.child.pid for name, process in self._processes.items()},
            "cores": self._cores,
        }
        if self._links is None:
            return body
        return body | {"links": self._links.states(), "transfers": self._links.transfers()}

    def edge_counts(self) -> dict[str, Any]:
        """Return what was dropped before links that begin here."""
        return self._links.edge_counts() if self._links else {}

    def tick(self) -> None:
        """End the workers whose links cannot go on."""
        for worker, line in self._links.take_faults() if self._links else ():
            self._events.on_message(worker, {"event": "failed", "line": line})
            self.kill(worker)

    def close(self) -> None:
        """Leave no process behind, whatever has happened here."""
        for process in self._processes.values():
            process.child.kill()
            process.child.wait()
            process.close()
        self._processes.clear()
        for page in self._pages.values():
            page.close()
        self._pages.clear()

    def _send(self, worker: str, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        with suppress(OSError, KeyError):  # it has ended, which its descriptor says
            self._processes[worker].channel.send(message, descriptors)

    def _read_messages(self, worker: str) -> None:
        process = self._processes.get(worker)
        if process is None:
            return
        try:
            while (received := process.channel.receive()) is not None:
                message, descriptors = received
                if descriptors:
                    message["state"] = read_memory(descriptors[0])
                self._events.on_message(worker, message)
        except EOFError:
            with suppress(KeyError):
                self._selector.unregister(process.channel)

    def _reap(self, worker: str) -> None:
        """Take note of a process that has ended."""
        self._read_messages(worker)
        process = self._processes.pop(worker)
        with suppress(KeyError):
            self._selector.unregister(process.channel)
        self._selector.unregister(process.descriptor)
        code = process.child.wait()
        process.close()
        how = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
        at = self._pages[worker].read()
        self._pages[worker].end()  # the call ended with its process: the next process is not in it
        self._events.on_exit(worker, how, at)


def resident_bytes(pid: int) -> Bytes:
    """Return the memory that a process holds; 0 once it has ended."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return Bytes(int(file.read().split()[1]) * mmap.PAGESIZE)
    except (OSError, IndexError):
        return Bytes(0)
