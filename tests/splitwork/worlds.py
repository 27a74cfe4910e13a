"""A store that is served, a job in it, and a worker in this process."""

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.device.connection import StoreConnection
from fairlead.splitwork.command import CommandExecutor
from fairlead.splitwork.link import ConnectedStore
from fairlead.splitwork.loop import SplitWork, WorkerProfile
from fairlead.splitwork.task import InputExecutor, LeasedInput
from tests.store.stores import TOKEN, Store

JOBS = "/.fairlead/jobs"


@dataclass
class Nowhere:
    """A machine that has no input: each is fetched."""

    asked: list[str] = field(default_factory=list)

    def find(self, lease: LeasedInput) -> str | None:
        """Return nothing."""
        self.asked.append(lease.path)
        return None


def ask(where: Store, method: str, path: str, document: Any = None) -> dict[str, Any]:
    """Ask the coordinator."""
    answer = where.ask(method, f"{JOBS}{path}", None if document is None else json.dumps(document))
    assert answer.status in (200, 201), answer.body
    return dict(json.loads(answer.body))


def job_of(where: Store, inputs: dict[str, bytes], command: Sequence[str] = ("true",), **spec: Any) -> str:
    """Make a job whose inputs are stored."""
    name = str(ask(where, "POST", "", {"command": list(command), "policy": "split", **spec})["job"])
    folder = where.root / "jobs" / name / "in"
    stated = []
    for path, content in inputs.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        stated.append({"path": path, "digest": digest, "size": len(content), "stored": True})
    ask(where, "POST", f"/{name}/inputs", {"inputs": stated, "complete": True})
    return name


def worker(
    where: Store,
    job: str,
    folder: Path,
    executors: Sequence[InputExecutor] = (),
    command: Sequence[str] = ("cat", "{input}"),
    url: str = "",
    say: Callable[[str], None] = lambda _: None,
) -> SplitWork:
    """Return a worker on a job."""
    return SplitWork(
        WorkerProfile(folder.name, "device"),
        str(folder),
        lambda: ConnectedStore(StoreConnection(url or where.url, "", TOKEN), job),
        Nowhere(),
        executors or [CommandExecutor(command)],
        say,
    )


def results(where: Store, job: str, count: int) -> dict[str, bytes]:
    """Return the files of results once there are so many; the test's timeout is the patience."""
    folder = where.root / "jobs" / job / "out"
    while True:
        rows = ask(where, "GET", f"/{job}/results")["results"]
        files = {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }
        if len(rows) >= count and len(files) >= count:
            return files
        threading.Event().wait(0.02)
