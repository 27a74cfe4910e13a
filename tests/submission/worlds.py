"""A store whose coordinator runs, a door to it, and a worker that tests drive by hand."""

import base64
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.store.settings import StoreFiles
from fairlead.submission.client import StoreDoor
from fairlead.submission.doors import FixedToken
from fairlead.submission.request import JobRequest
from tests.store.stores import TOKEN, Store
from tests.store.stores import store as served

PAUSE = 0.02
"""Seconds between two looks of the programs that are tested."""


@dataclass
class Session:
    """A store, and who asks it."""

    store: Store
    door: StoreDoor

    def submit(self, request: "JobRequest | None" = None) -> str:
        """Make a job."""
        with self.door.client() as client:
            return client.submit((request or JobRequest("command", ("cat", "{input}"))).to_json())

    def job(self, name: str) -> dict[str, Any]:
        """Return a job."""
        with self.door.client() as client:
            return dict(client.job(name))


@contextmanager
def session(folder: Path) -> Iterator[Session]:
    """Yield a session."""
    folder.mkdir(exist_ok=True)
    with served(folder, StoreFiles(state=str(folder / "state"))) as store:
        yield Session(store, StoreDoor(store.url, "", FixedToken(TOKEN), "shop"))


def until(holds: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Return what holds once it does."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it does not come to that"
        threading.Event().wait(0.01)
    return found


@dataclass
class HandWorker:
    """A worker beside the store: it makes upper case of what is stored, and fails on what a test says."""

    session: Session
    job: str
    fails: frozenset[str] = frozenset()
    done: list[str] = field(default_factory=list)

    def step(self) -> str:
        """Take inputs, and hand in their results; return the state of the job."""
        said = self._exchange({"want": True, "wait": 0.2})
        results, failures = [], []
        for lease in said["leases"]:
            head = {"input": lease["input"], "lease": lease["lease"]}
            if lease["path"] in self.fails:
                failures.append({**head, "exit": 3, "error": "no good"})
                continue
            content = (self.session.store.root / lease["where"].lstrip("/")).read_bytes()
            assert hashlib.sha256(content).hexdigest() == lease["digest"]
            made = content.upper()
            self.done.append(lease["path"])
            results.append(
                {
                    **head,
                    "digest": hashlib.sha256(made).hexdigest(),
                    "size": len(made),
                    "seconds": 0.01,
                    "inline": base64.b64encode(made).decode(),
                }
            )
        if results or failures:
            said = self._exchange({"results": results, "failures": failures})
        return str(said["state"])

    def run(self) -> None:
        """Work until the job has ended."""
        until(lambda: self.step() in ("done", "cancelled"))

    def _exchange(self, body: dict[str, Any]) -> dict[str, Any]:
        with self.session.door.client() as client:
            fixed = {"worker": "hand", "site": "pod", "slots": 4, "has": "stored", "held": []}
            return client._ask("POST", f"/{self.job}/exchange", {**fixed, **body})
