"""One worker of a measurement: `python -m fairlead.splitbench.worker SPEC`, which the bench starts.

Its standard input says `go`, and `rate N` when its rate changes; it says `ready` once it is connected.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any, TextIO

from fairlead.device.connection import StoreConnection
from fairlead.splitwork.fixed_rate import FixedRate
from fairlead.splitwork.link import ConnectedStore
from fairlead.splitwork.loop import SplitWork, WorkerProfile
from fairlead.splitwork.task import LeasedInput


class FolderOfInputs:
    """Inputs that are on this machine; an empty folder: none are."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find(self, lease: LeasedInput) -> str | None:
        """Return the file of an input."""
        return os.path.join(self._folder, lease.path) if self._folder else None


def main(spec: Mapping[str, Any]) -> None:
    """Work until the job has ended."""
    executor = FixedRate(spec["rate"])
    work = SplitWork(
        WorkerProfile(spec["name"], spec["site"], spec["has"]),
        spec["folder"],
        lambda: ConnectedStore(StoreConnection(spec["url"], "", spec["token"]), spec["job"]),
        FolderOfInputs(spec["inputs"]),
        [executor],
        lambda line: _write(sys.stderr, f"{spec['name']}: {line}"),
    )
    work.connect()
    _write(sys.stdout, "ready")
    if sys.stdin.readline().strip() != "go":
        return
    threading.Thread(target=_follow, args=(executor,), daemon=True).start()
    work.run()


def _write(stream: TextIO, line: str) -> None:
    stream.write(f"{line}\n")
    stream.flush()


def _follow(executor: FixedRate) -> None:
    for line in sys.stdin:
        word, _, value = line.partition(" ")
        if word == "rate":
            executor.set_rate(float(value))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
