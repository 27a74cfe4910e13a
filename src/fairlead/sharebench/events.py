"""What an engine writes down as it happens, a line of JSON each: one that is killed leaves its lines."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any, Final

from fairlead.sharebench.workload import OUT

SUFFIX: Final = ".jsonl"


class EventLog:
    """The lines of one engine."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    @classmethod
    @contextmanager
    def open(cls, environ: Mapping[str, str]) -> "Iterator[EventLog]":
        """Create the file of this process, in the folder that the environment names."""
        path = os.path.join(environ.get(OUT) or ".", f"{os.getpid()}{SUFFIX}")
        with open(path, "w", encoding="utf-8") as stream:
            yield cls(stream)

    def write(self, event: str, **fields: object) -> None:
        """Write one event with the time."""
        self._stream.write(json.dumps({"event": event, "at": time.time(), **fields}) + "\n")
        self._stream.flush()


@dataclass(frozen=True, slots=True)
class EngineEvents:
    """What one engine did."""

    pid: int
    job: str = ""
    """The id of its job; empty: it was not started by the queue."""
    network: str = ""
    mps: str = ""
    """Its MPS pipe directory; empty: none."""
    started: float | None = None
    ready: float | None = None
    """When its network was loaded: the next moment is that of the first query."""
    grows: float | None = None
    """When it asked for memory above its share."""
    grew: float | None = None
    """When it held that memory."""
    refused: float | None = None
    """When memory was refused."""
    done: float | None = None
    error: str = ""
    latencies: tuple[float, ...] = ()
    """Seconds of each query, without the warm-up."""
    digest: str = ""
    """Of all answers, in order."""

    @property
    def throughput(self) -> float | None:
        """Queries in a second of serving; None: it did not serve to the end."""
        return len(self.latencies) / sum(self.latencies) if self.latencies and self.digest else None


def read_events(folder: str) -> dict[int, EngineEvents]:
    """Return what every engine that wrote into a folder did, by its pid."""
    names = [name for name in os.listdir(folder) if name.endswith(SUFFIX)]
    pids = sorted(int(name.removesuffix(SUFFIX)) for name in names)
    return {pid: _read(os.path.join(folder, f"{pid}{SUFFIX}"), pid) for pid in pids}


def _read(path: str, pid: int) -> EngineEvents:
    events = EngineEvents(pid)
    for line in _lines(path):
        events = _after(events, line)
    return events


def _lines(path: str) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            try:
                yield json.loads(line)
            except ValueError:
                return  # killed while it wrote


def _after(events: EngineEvents, line: Mapping[str, Any]) -> EngineEvents:
    """Return the events with one more."""
    at, event = line["at"], line["event"]
    if event == "started":
        return replace(events, started=at, job=line["job"], network=line["network"], mps=line["mps"])
    if event == "ready":
        return replace(events, ready=at)
    if event == "grows":
        return replace(events, grows=at)
    if event == "grew":
        return replace(events, grew=at)
    if event in ("refused", "failed"):
        return replace(events, error=line["error"], refused=at if event == "refused" else None)
    return replace(events, done=at, latencies=tuple(line["latencies"]), digest=line["sha256"])
