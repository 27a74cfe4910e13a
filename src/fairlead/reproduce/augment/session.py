"""A session of this machine as people start it: a store, a server's worker and a device that submits.

All of it is the command line of fairlead in processes of their own: `augment create --local`, `device join`,
`augment work` and `augment submit`. State and files are below one folder, and end with the block.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fairlead.errors import EmulationError
from fairlead.reproduce.augment.bare import ONE_THREAD
from fairlead.reproduce.augment.figures import JobRunFigures
from fairlead.reproduce.thesis.rig import background
from fairlead.submission.doors import session_door
from fairlead.units import pluralize

_FAIRLEAD: Final = (sys.executable, "-m", "fairlead")
_SESSION, _SERVER = "kraf", "server"
DEVICE_NAME: Final = "device"
_FUNCTIONS: Final = "fairlead.reproduce.augment.function"
_PATIENCE: Final = 30.0
_LONGEST: Final = 3600.0
_NOTHING: Final[Mapping[str, str]] = {}
_SUBMIT_LOG, _WORK_LOG = "submit.log", "work.log"
Json = Mapping[str, Any]


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


@dataclass(frozen=True, slots=True)
class ReproducedSession:
    """A session, once its device has joined."""

    folder: Path
    """With the state of the device."""
    jobs: Callable[[], Sequence[Json]]
    """Returns its jobs."""
    server: Callable[[Mapping[str, str]], AbstractContextManager[object]]
    """Starts the worker at the store, with an environment; it ends with the block."""
    enter: Callable[[Sequence[str]], list[str]] = list
    """Puts a command line where the device is."""

    def run(self, job: SplitRun) -> JobRunFigures:
        """Run a job from the moment at which its workers are connected."""
        base = os.path.dirname(job.paths[0])
        names = "".join(f"{os.path.relpath(path, base)}\n" for path in job.paths)
        words = ["augment", "submit", "--inputs", "-", "--base", base, "--policy", job.policy, "-o", "json"]
        words += ["--function", f"{_FUNCTIONS}:{job.function}"]
        with ExitStack() as stack:
            if job.policy != "device":
                stack.enter_context(self.server(job.server))
            known = {each["job"] for each in self.jobs()}
            argv = self.enter(command(self.folder, words, job.device))
            submit = stack.enter_context(background(argv, self.folder, _SUBMIT_LOG, pipes=True))
            self._await_workers(submit, job.workers, known)
            assert submit.stdin is not None
            assert submit.stdout is not None
            submit.stdin.write(names)
            submit.stdin.close()
            submit.stdin = None
            said, _ = submit.communicate(timeout=_LONGEST)
            if submit.returncode:
                raise EmulationError(f"the job failed: {_last(self.folder / _SUBMIT_LOG)}")
        return _figures(json.loads(said))

    def _await_workers(self, submit: "subprocess.Popen[str]", count: int, known: Set[str]) -> None:
        until = time.monotonic() + _PATIENCE
        while self._connected(known) < count:
            if submit.poll() is not None:
                raise EmulationError(f"the job ended: {_last(self.folder / _SUBMIT_LOG)}")
            if time.monotonic() > until:
                raise EmulationError(f"the workers are missing: {_last(self.folder / _WORK_LOG)}")
            time.sleep(0.05)

    def _connected(self, known: Set[str]) -> int:
        fresh = [each for each in self.jobs() if each["job"] not in known]
        return len(fresh[0]["workers"]) if fresh else 0


@contextmanager
def local_session(folder: Path, size: int) -> Iterator[ReproducedSession]:
    """Yield a session whose store takes so many bytes; it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    quota = f"{quota_mebibytes(size)}Mi"
    created = ["augment", "create", _SESSION, "--local", "--device", DEVICE_NAME, "--size", quota]
    run_command(folder, created)
    try:
        invited = ["augment", "invite", _SESSION, "--local", "-o", "json"]
        invite = json.loads(run_command(folder, invited))
        token = ["--token", invite["token"], "--fingerprint", invite["fingerprint"]]
        run_command(folder, ["device", "join", invite["url"], *token, "--name", DEVICE_NAME])
        yield _local(folder, invite["url"])
    finally:
        run_command(folder, ["augment", "delete", _SESSION, "--local", "--delete-data"])


def _local(folder: Path, url: str) -> ReproducedSession:
    """Return the session of this machine, which starts a worker at the store for each job."""
    door = session_door(url, str(folder / "state/fairlead/sessions" / _SESSION), _SESSION)
    work = ["augment", "work", "--local", _SESSION, "--name", _SERVER]

    def jobs() -> Sequence[Json]:
        with door.client() as client:
            return client.jobs()

    return ReproducedSession(
        folder, jobs, lambda environ: background(command(folder, work, environ), folder, _WORK_LOG)
    )


def quota_mebibytes(size: int) -> int:
    """Return how much a store must take for inputs of so many bytes, and their results."""
    return (size >> 20) + 256


def command(folder: Path, words: Sequence[str], environ: Mapping[str, str] = _NOTHING) -> list[str]:
    """Return a command line of fairlead with its state below a folder."""
    own = {"XDG_STATE_HOME": str(folder / "state"), **ONE_THREAD}
    return ["env", *(f"{name}={value}" for name, value in {**own, **environ}.items()), *_FAIRLEAD, *words]


def run_command(
    folder: Path, words: Sequence[str], enter: Callable[[Sequence[str]], list[str]] = list
) -> str:
    """Run a command line of fairlead, which must succeed, and return what it prints."""
    done = subprocess.run(  # noqa: S603 - no shell; every argument is ours
        enter(command(folder, words)),
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
