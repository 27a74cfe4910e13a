"""The peers of `make bench-run`: pueue from its crate, task-spooler from its Debian package, and fairlead."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Protocol

from bench.run_jobs import QueueJob

PUEUE = "4.0.4"
_SELDOM = 100
"""Looks at the log for each look at the queue."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fairlead" / "bench"
"""Per user, as the lab's programs are; the version is part of the name."""


class QueuePeer(Protocol):
    """A queue on one machine."""

    name: str

    def run(self, jobs: Sequence[QueueJob], parallel: int, folder: Path) -> int:
        """Submit every job at once, wait until all have ended, and return how many failed."""


class Pueue:
    """pueue: a daemon, and a client that adds tasks."""

    name = "pueue"

    def __init__(self) -> None:
        self._bin = install_pueue()

    def run(self, jobs: Sequence[QueueJob], parallel: int, folder: Path) -> int:
        """Run the queue with that many tasks at once."""
        for part in ("data", "run"):
            (folder / part).mkdir(mode=0o700)
        config = folder / "pueue.yml"
        config.write_text(
            f"shared:\n  pueue_directory: {folder / 'data'}\n  runtime_directory: {folder / 'run'}\n"
            "  use_unix_socket: true\nclient: {}\n"
            "daemon:\n  callback: null\n"
        )
        daemon = subprocess.Popen(
            [self._bin / "pueued", "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            client = [str(self._bin / "pueue"), "-c", str(config)]
            _until(lambda: _answers([*client, "status"]))
            _run([*client, "parallel", str(parallel)])
            for job in jobs:
                _run([*client, "add", "--", shlex.join(job.argv())])
            _run([*client, "wait", "--quiet"])
            tasks = json.loads(_run([*client, "status", "--json"]))["tasks"].values()
            _run([*client, "shutdown"])
            return sum("Success" not in json.dumps(task["status"]) for task in tasks)
        finally:
            _end(daemon)


class TaskSpooler:
    """task-spooler: a server that the first client starts."""

    name = "task-spooler"

    def __init__(self) -> None:
        self._tsp = install_task_spooler()

    def run(self, jobs: Sequence[QueueJob], parallel: int, folder: Path) -> int:
        """Run the queue with that many jobs at once."""
        own = {"TS_SOCKET": str(folder / "socket"), "TMPDIR": str(folder), "TS_MAXFINISHED": "1000"}
        environment = {**os.environ, **own}
        tsp = str(self._tsp)
        _run([tsp, "-S", str(parallel)], environment)
        try:
            for job in jobs:
                _run([tsp, "-n", *job.argv()], environment)
            _until(lambda: not _unfinished(_run([tsp], environment)))
            rows = [line.split() for line in _run([tsp], environment).splitlines()[1:]]
            return sum(row[3] != "0" for row in rows)
        finally:
            _run([tsp, "-K"], environment)


class Fairlead:
    """fairlead, from this checkout; it is given no parallelism."""

    name = "fairlead"

    def run(self, jobs: Sequence[QueueJob], parallel: int, folder: Path) -> int:
        """Submit the queue in one call, as a file of commands."""
        environment = {**os.environ, "FAIRLEAD_STATE": str(folder / "state")}
        fairlead = [sys.executable, "-m", "fairlead"]
        lines = [_line(job) for job in jobs]
        _run([*fairlead, "submit", "--from", "-"], environment, "\n".join(lines) + "\n")
        state: list[str] = []

        def ended() -> bool:
            out = json.loads(_run([*fairlead, "ps", "-a", "-o", "json"], environment))["jobs"]
            state[:] = [job["state"] for job in out]
            return len(out) == len(jobs) and not {"queued", "running"} & set(state)

        log = Path(os.environ["BENCH_RUN_LOG"])
        # Each look at the queue takes a core from its jobs: it is for jobs that fail and log nothing.
        looks = count()
        _until(lambda: _lines(log) >= len(jobs) or (next(looks) % _SELDOM == _SELDOM - 1 and ended()), 0.2)
        _until(ended, pause=0.5)
        return sum(each != "done" for each in state)


def _line(job: QueueJob) -> str:
    """Return a line for `submit --from`; the size of a large job is stated, as its user would."""
    command = shlex.join(job.argv())
    return f"--memory {job.memory >> 20}Mi -- {command}" if job.memory else command


def install_pueue() -> Path:
    """Build pueue once per user, and return the folder of its programs."""
    root = CACHE / f"pueue-{PUEUE}"
    if not (root / "bin" / "pueued").exists():
        print(f"building pueue {PUEUE}, once per user (some minutes)", flush=True)
        command = [
            "cargo",
            "install",
            "--quiet",
            "pueue",
            "--version",
            PUEUE,
            "--locked",
            "--root",
            str(root),
        ]
        subprocess.run(command, check=True)
    return root / "bin"


def install_task_spooler() -> Path:
    """Unpack Debian's task-spooler once per user, and return its program; one on the PATH will do."""
    if found := shutil.which("tsp"):
        return Path(found)
    root = CACHE / "task-spooler"
    if not (root / "usr" / "bin" / "tsp").exists():
        root.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "--quiet", "task-spooler"], check=True, cwd=root)
        package = next(root.glob("task-spooler_*.deb"))
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
    return root / "usr" / "bin" / "tsp"


def _run(command: Sequence[str], environment: dict[str, str] | None = None, text: str | None = None) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, input=text)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _answers(command: Sequence[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _unfinished(table: str) -> bool:
    return any(line.split()[1:2] in (["running"], ["queued"]) for line in table.splitlines()[1:])


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def _until(condition: Callable[[], bool], pause: float = 0.05, limit: float = 900.0) -> None:
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("the queue did not end within 15 minutes")
        time.sleep(pause)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
