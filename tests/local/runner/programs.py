"""Real processes: `fairlead run` with a state directory of its own, and functions in a forked process."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from fairlead.history.store import JobHistory
from fairlead.host import Host
from fairlead.job import LocalJob
from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.place import StateDirectory
from fairlead.local.machine.limits import read_cpu

ALL_CORES = str(read_cpu(Host("/"), 1).cpu / 1000)
"""The cores that this process may use: fewer than the machine has, if its cgroup has a quota."""
LONG = 120
"""Seconds after which a test gives up; none waits for so long."""


class World:
    """A state directory and a home, and commands in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FAIRLEAD")},
            "FAIRLEAD_STATE": str(folder / "state"),
            "HOME": str(folder / "home"),
            "TERM": "xterm",
        }
        (folder / "home").mkdir()
        self.ledger = JobLedger(StateDirectory.open(self.environ))

    def words(self, *words: str) -> list[str]:
        """Return the words that start `fairlead run`."""
        return [sys.executable, "-m", "fairlead", "run", *words]

    def run(self, *words: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
        """Run `fairlead run` to its end."""
        options: dict[str, Any] = {"env": self.environ, "capture_output": True, "timeout": LONG, **more}
        return subprocess.run(self.words(*words), check=False, **options)

    def start(self, *words: str, **more: Any) -> "subprocess.Popen[bytes]":
        """Start `fairlead run`, with pipes."""
        pipe = subprocess.PIPE
        options: dict[str, Any] = {"env": self.environ, "stdin": pipe, "stdout": pipe, "stderr": pipe, **more}
        return subprocess.Popen(self.words(*words), **options)

    def history(self) -> tuple[LocalJob, ...]:
        """Return the ended jobs."""
        return JobHistory.open(self.ledger.place, self.environ).jobs()


def read_until(stream: IO[bytes] | None, text: str) -> str:
    """Return the output up to the line that contains a text."""
    assert stream is not None
    seen = ""
    while line := stream.readline().decode():
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"{text!r} is not in {seen!r}")


def forked(action: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Call a function in a forked process, which may block signals or kill itself; return its result."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.write(writer, json.dumps(dict(action())).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as stream:
        text = stream.read()
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return {"signal": signal.Signals(os.WTERMSIG(status)).name}
    return dict(json.loads(text))


COUNTING = """
import os, signal, sys
counts = {}
def count(number, _):
    counts[number] = counts.get(number, 0) + 1
    os.write(1, f"received {signal.Signals(number).name} {counts[number]}\\n".encode())
    if number == signal.SIGUSR1:
        sys.exit(9)
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGWINCH):
    signal.signal(each, count)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""
"""A command that prints each signal it gets; SIGUSR1 ends it with 9."""


def counts(text: str) -> dict[str, int]:
    """Return how often each signal was received, by the output of `COUNTING`."""
    return {name: int(number) for name, number in re.findall(r"received (\w+) (\d+)", text)}
