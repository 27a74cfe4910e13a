"""A session of this machine as people start it: a store, a server's worker and a device that submits.

All of it is the command line of fairlead in processes of their own: `augment create --local`, `device join`,
`augment work` and `augment submit`. State and files are below one folder, and end with the block.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fairlead.errors import EmulationError
from fairlead.reproduce.augment.figures import JobRunFigures
from fairlead.reproduce.thesis.rig import background
from fairlead.submission.client import JobsClient
from fairlead.submission.doors import session_door
from fairlead.units import pluralize

_FAIRLEAD: Final = (sys.executable, "-m", "fairlead")
_SESSION, _DEVICE, _SERVER = "kraf", "device", "server"
_FUNCTIONS: Final = "fairlead.reproduce.augment.function"
_PATIENCE: Final = 30.0
_LONGEST: Final = 3600.0
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class SplitRun:
    """A job, who works on it, and at which pace."""

    function: str
    """`detect` or `load`."""
    paths: Sequence[str]
    policy: str
    device: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """The environment of the device's worker."""
    server: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    @property
    def workers(self) -> int:
        """How many workers must be there before the first input is named."""
        return 1 if self.policy in ("device", "server") else 2


class ReproducedSession:
    """The session, once its device has joined."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        place = folder / "state/fairlead/sessions" / _SESSION
        self._door = session_door(url, str(place), _SESSION)

    def run(self, job: SplitRun) -> JobRunFigures:
        """Run a job from the moment at which its workers are connected."""
        base = os.path.dirname(job.paths[0])
        names = "".join(f"{os.path.relpath(path, base)}\n" for path in job.paths)
        words = ["augment", "submit", "--inputs", "-", "--base", base, "--policy", job.policy, "-o", "json"]
        words += ["--function", f"{_FUNCTIONS}:{job.function}"]
        with ExitStack() as stack:
            if job.policy != "device":
                work = ["augment", "work", "--local", _SESSION, "--name", _SERVER]
                stack.enter_context(self._started(work, job.server, "work.log"))
            submit = stack.enter_context(self._started(words, job.device, "submit.log"))
            self._await_workers(submit, job.workers)
            assert submit.stdin is not None
            assert submit.stdout is not None
            submit.stdin.write(names)
            submit.stdin.close()
            submit.stdin = None
            said, _ = submit.communicate(timeout=_LONGEST)
            if submit.returncode:
                raise EmulationError(f"the job failed: {_last(self._folder / 'submit.log')}")
        return _figures(json.loads(said))

    def _await_workers(self, submit: "subprocess.Popen[str]", count: int) -> None:
        until = time.monotonic() + _PATIENCE
        with self._door.client() as client:
            known = {each["job"] for each in client.jobs() if each["state"] not in ("running", "waiting")}
            while self._connected(client, known) < count:
                if submit.poll() is not None:
                    raise EmulationError(f"the job ended: {_last(self._folder / 'submit.log')}")
                if time.monotonic() > until:
                    raise EmulationError(f"the workers are missing: {_last(self._folder / 'work.log')}")
                time.sleep(0.05)

    def _connected(self, client: JobsClient, known: set[str]) -> int:
        fresh = [each for each in client.jobs() if each["job"] not in known]
        return len(fresh[0]["workers"]) if fresh else 0

    def _started(self, words: Sequence[str], environ: Mapping[str, str], log: str) -> Any:
        return background(command(self._folder, words, environ), self._folder, log, pipes=True)


@contextmanager
def local_session(folder: Path, size: int) -> Iterator[ReproducedSession]:
    """Yield a session whose store takes so many bytes; it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    quota = f"{(size >> 20) + 256}Mi"
    created = ["augment", "create", _SESSION, "--local", "--device", _DEVICE, "--size", quota]
    _said(folder, created)
    try:
        invite = json.loads(_said(folder, ["augment", "invite", _SESSION, "--local", "-o", "json"]))
        token = ["--token", invite["token"], "--fingerprint", invite["fingerprint"]]
        _said(folder, ["device", "join", invite["url"], *token, "--name", _DEVICE])
        yield ReproducedSession(folder, invite["url"])
    finally:
        _said(folder, ["augment", "delete", _SESSION, "--local", "--delete-data"])


def command(folder: Path, words: Sequence[str], environ: Mapping[str, str] = _NOTHING) -> list[str]:
    """Return a command line of fairlead with its state below a folder."""
    own = {"XDG_STATE_HOME": str(folder / "state"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return ["env", *(f"{name}={value}" for name, value in {**own, **environ}.items()), *_FAIRLEAD, *words]


def _said(folder: Path, words: Sequence[str]) -> str:
    done = subprocess.run(  # noqa: S603 - no shell; every argument is ours
        command(folder, words),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=_PATIENCE * 4,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise EmulationError(f"fairlead {' '.join(words[:2])} failed: {lines[0]}")
    return done.stdout


def _figures(job: Mapping[str, Any]) -> JobRunFigures:
    counts = job["counts"]
    if counts["done"] != counts["inputs"]:
        lost = pluralize(counts["inputs"] - counts["done"], "input")
        raise EmulationError(f"a split job has not done {lost}")
    by_device = sum(each["done"] for each in job["workers"] if each["site"] == "device")
    seconds = job["last_result"] - job["started"]
    return JobRunFigures(counts["done"], seconds, device_share=by_device / counts["done"])


def _last(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason given"
