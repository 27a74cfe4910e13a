"""A worker process for faults: `python -m tests.splitfaults.worker SPEC`; its results have many sizes."""

import hashlib
import json
import random
import sys
import time

from fairlead.device.connection import StoreConnection
from fairlead.splitwork.link import ConnectedStore
from fairlead.splitwork.loop import SplitWork, WorkerProfile
from fairlead.splitwork.task import LeasedInput, Made, WorkTask


def content(number: int) -> bytes:
    """Return the content of an input."""
    return f"input {number}\n".encode() * (1 + number % 7)


def expected(data: bytes) -> bytes:
    """Return the result of an input with this content: some are too large for an exchange."""
    dice = random.Random(hashlib.sha256(data).digest())
    return hashlib.sha256(data).digest() * dice.choice((1, 1, 10, 100, 2500))


class Timed:
    """Takes some time for each input, and makes its result."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, task: WorkTask, target: str) -> Made:
        """Make the result, as a value or as a file."""
        with open(task.source, "rb") as file:
            data = file.read()
        time.sleep(self._seconds)
        result = expected(data)
        if task.lease.input % 2:
            return result
        with open(target, "wb") as out:
            out.write(result)
        return None

    def interrupt(self) -> None:
        """Do nothing."""

    def drop(self, task: WorkTask) -> None:
        """Run it to its end."""
        del task

    def close(self) -> None:
        """Do nothing."""


class Volume:
    """Reads inputs where they are stored, or has none."""

    def __init__(self, root: str) -> None:
        self._root = root

    def find(self, lease: LeasedInput) -> str | None:
        """Return the file of an input."""
        return f"{self._root}{lease.where}" if self._root and lease.where else None


def main(spec: dict[str, str]) -> None:
    """Work until the job has ended."""
    work = SplitWork(
        WorkerProfile(spec["name"], spec["site"]),
        spec["folder"],
        lambda: ConnectedStore(StoreConnection(spec["url"], "", spec["token"]), spec["job"]),
        Volume(spec["root"]),
        [Timed(float(spec["seconds"]))],
        lambda line: None,
    )
    work.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
