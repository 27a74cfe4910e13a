"""A coordinator to test, with a clock of its own; and workers that do their inputs at once."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.store.jobs.coordinator import SplitCoordinator
from fairlead.store.jobs.database import JobsDatabase
from fairlead.store.jobs.requests import parse_exchange, parse_inputs


def digest(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def stated(name: str, *, stored: bool = True) -> dict[str, Any]:
    """Return an input as a feeder states it; its content is its name."""
    return {"path": name, "digest": digest(name), "size": len(name), "stored": stored}


def result(lease: Mapping[str, Any], text: str = "") -> dict[str, Any]:
    """Return the result of a lease: the path twice, or some text."""
    data = (text or lease["path"] * 2).encode()
    return {
        "input": lease["input"],
        "lease": lease["lease"],
        "digest": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "seconds": 0.1,
        "interval": 0.1,
        "inline": base64.b64encode(data).decode(),
    }


@dataclass
class Bench:
    """A coordinator over a file, which can be begun again."""

    path: Path
    now: float = 0.0
    coordinator: SplitCoordinator = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self.begin()

    def begin(self) -> None:
        """Begin a coordinator on what an earlier one left."""
        database = JobsDatabase(str(self.path), sync=False)
        self.coordinator = SplitCoordinator(database, clock=lambda: self.now, wall=lambda: self.now)

    def end(self) -> None:
        """End it as a kill does: nothing more is written."""
        self.coordinator.database.close()

    def job(self, count: int, **spec: Any) -> str:
        """Make a job with so many inputs."""
        name = self.coordinator.make({"command": ["true"], "policy": "split", **spec})
        self.add(name, [stated(f"f{number}") for number in range(count)], complete=True)
        return name

    def add(
        self, name: str, inputs: Sequence[Mapping[str, Any]], *, complete: bool = False
    ) -> dict[str, Any]:
        """Add inputs."""
        parsed, _ = parse_inputs({"inputs": list(inputs)})
        return self.coordinator.add(name, parsed, complete=complete)

    def exchange(self, job: str, worker: str, **said: Any) -> dict[str, Any]:
        """Exchange."""
        document = {"worker": worker, "site": "pod", "has": "all", "want": True, **said}
        return self.coordinator.exchange(job, parse_exchange(document))

    def work(self, job: str, worker: str, most: int = 10**6) -> int:
        """Have a worker do inputs until it gets none; return how many."""
        done = 0
        reply = self.exchange(job, worker)
        while reply["leases"] and done < most:
            self.now += 0.1 * len(reply["leases"])
            done += len(reply["leases"])
            reply = self.exchange(job, worker, results=[result(each) for each in reply["leases"]])
        return done
