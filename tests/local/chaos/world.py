"""One machine's jobs under faults: commands that log their start and end, processes killed or stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

CORES = len(os.sched_getaffinity(0))
LIMIT = 300.0
"""Seconds after which a world that does not come to rest has failed; a loaded machine needs some of them."""
_COMMAND = """
trap 'read up rest < /proc/uptime; echo "end $FAIRLEAD_JOB_ID $up $1 $$" >> "$2"; exit 143' TERM
read up rest < /proc/uptime; echo "start $FAIRLEAD_JOB_ID $up $1 $$" >> "$2"
case "$3" in /*) until [ -e "$3" ]; do sleep 0.05; done;; *) sleep "$3";; esac
read up rest < /proc/uptime; echo "end $FAIRLEAD_JOB_ID $up $1 $$" >> "$2"
exit "$4"
"""
_SITE = """
import os, time
_now = time.time
def jumping(_jump=float(os.environ.get("FAIRLEAD_CHAOS_JUMP", "0"))):
    return _now() + _jump
time.time = jumping
"""
"""With this module, every Python process of a world sees a wall clock that is off by FAIRLEAD_CHAOS_JUMP."""
_DAY = 86_400
_JUMPS = (0, 0, 0, -_DAY, 3_600, 400 * _DAY)
_MARK = "FAIRLEAD_CHAOS_WORLD"
"""In the environment of every process of a world: a supervisor keeps the variables of fairlead alone."""
_PLACE = "/var/lib/fairlead" if os.path.isdir("/var/lib/fairlead") else "/var/tmp"
"""Where the state lies without FAIRLEAD_STATE: a world puts a folder of its own over it."""
_HIDE = """
mount --bind "$1" "$2" && mount --bind "$3" "$3" || exit 125
if [ "$4" = read-only ]; then mount -o remount,bind,ro "$3" || exit 125; fi
shift 4; exec "$@"
"""


def may_mount() -> bool:
    """Return whether this user can mount what only a command and its children see."""
    return os.geteuid() == 0 and not subprocess.run(["unshare", "-m", "true"], check=False).returncode


@dataclass(frozen=True)
class Started:
    """The life of one command, by its own account."""

    job: str
    cpus: int
    pid: int
    begin: float
    end: float | None


@dataclass
class World:
    """A state directory, and every process that works on it."""

    folder: Path
    random: Random
    state: Path | None = None
    """FAIRLEAD_STATE; None: a folder beside the others."""
    homes: Sequence[str] = ()
    """What a command may find as its home: `usual`, `read-only` or `missing`. Then FAIRLEAD_STATE is not set,
    and the usual state directory is one of this world. Empty: FAIRLEAD_STATE is set."""
    foreground: dict[int, tuple[subprocess.Popen[bytes], int]] = field(default_factory=dict)
    """Each `fairlead run` by its pid, and the exit code of its command."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Submitted jobs by id, and the exit code of their command."""
    kills: dict[int, float] = field(default_factory=dict)
    """By pid, the seconds since the boot when SIGKILL was sent."""

    def __post_init__(self) -> None:
        (self.folder / "site").mkdir()
        (self.folder / "site" / "sitecustomize.py").write_text(_SITE)
        (self.folder / "home").mkdir()
        (self.folder / "place").mkdir()
        (self.folder / "place").chmod(0o1777)
        self.log.touch()

    @property
    def log(self) -> Path:
        """The file to which every command appends its start and its end."""
        return self.folder / "log"

    def environment(self, home: str) -> dict[str, str]:
        """Return the environment of a fairlead command; now and then its wall clock has jumped."""
        path = os.pathsep.join([str(self.folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
        environ = {
            **os.environ,
            "HOME": str(self.folder / ("gone/home" if home == "missing" else "home")),
            "PYTHONPATH": path,
            "FAIRLEAD_CHAOS_JUMP": str(self.random.choice(_JUMPS)),
            _MARK: str(self.folder),
            "FAIRLEAD_STATE": "" if self.homes else str(self.state or self.folder / "state"),
        }
        environ.pop("XDG_STATE_HOME", None)
        return environ

    def words(self, home: str, *arguments: str) -> list[str]:
        """Return the words of a fairlead command; without FAIRLEAD_STATE, in mounts of its own."""
        command = [sys.executable, "-m", "fairlead", *arguments]
        if not self.homes:
            return command
        places = [str(self.folder / "place"), _PLACE, str(self.folder / "home"), home]
        return ["unshare", "-m", "sh", "-c", _HIDE, "sh", *places, *command]

    # Commands

    def run(self, cpus: int, seconds: float, code: int) -> None:
        """Start `fairlead run` in the background."""
        process = self._start("run", cpus, seconds, code)
        self.foreground[process.pid] = (process, code)

    def submit(self, cpus: int, seconds: float | Path, code: int) -> subprocess.Popen[bytes]:
        """Start `fairlead submit`; `acknowledge` reads its answer."""
        return self._start("submit", cpus, seconds, code)

    def acknowledge(self, process: subprocess.Popen[bytes], code: int) -> None:
        """Note the job of a submit that was not killed."""
        out, _ = process.communicate(timeout=LIMIT)
        if process.returncode == 0:
            self.acknowledged[out.decode().strip()] = code

    def submit_one_for_all_cores(self) -> None:
        """Submit a job that needs every core: it runs only if nothing is booked for the dead."""
        process = self.submit(CORES, 0.01, 0)
        self.acknowledge(process, 0)
        assert process.returncode == 0

    def _start(self, verb: str, cpus: int, seconds: float | Path, code: int) -> subprocess.Popen[bytes]:
        length = str(seconds) if isinstance(seconds, Path) else f"{seconds:.2f}"
        command = ["sh", "-c", _COMMAND, "job", str(cpus), str(self.log), length, str(code)]
        home = self.random.choice(self.homes or ("usual",))
        return subprocess.Popen(
            self.words(home, verb, "--cpus", str(cpus), "--memory", "1Mi", "--", *command),
            env=self.environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if verb == "submit" else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def cancel(self, job: str) -> None:
        """Cancel one job without waiting for its end."""
        self._fairlead("cancel", "--no-wait", job)

    def jobs(self) -> list[dict[str, Any]]:
        """Return `fairlead ps -a -o json`."""
        out = self._fairlead("ps", "-a", "-o", "json")
        return list(json.loads(out)["jobs"]) if out else []

    def _fairlead(self, *arguments: str) -> str:
        done = subprocess.run(
            self.words("usual", *arguments),
            env=self.environment("usual"), check=False, capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
        return done.stdout

    # Faults

    def kill_one(self) -> None:
        """Send SIGKILL to one process of this world: a command line, a runner, a supervisor or a command."""
        targets = sorted(self.processes())
        if targets:
            pid = self.random.choice(targets)
            self.kills[pid] = time.clock_gettime(time.CLOCK_BOOTTIME)
            _kill(pid)

    def stop_one(self, seconds: float) -> None:
        """Stop one process of this world for a while: it may hold a lock, or be about to write."""
        if targets := sorted(self.processes()):
            with suppress(ProcessLookupError):
                os.kill(pid := self.random.choice(targets), signal.SIGSTOP)
                time.sleep(seconds)
                os.kill(pid, signal.SIGCONT)

    def processes(self) -> Iterator[int]:
        """Yield every process whose environment names this world."""
        mark = f"{_MARK}={self.folder}".encode()
        for name in os.listdir("/proc"):
            if name.isdecimal() and int(name) != os.getpid():
                try:
                    environment = Path("/proc", name, "environ").read_bytes()
                except OSError:
                    continue
                if mark in environment.split(b"\0"):
                    yield int(name)

    # The end

    def come_to_rest(self) -> list[dict[str, Any]]:
        """Wait until every job has ended, and return all jobs."""
        for process, _ in self.foreground.values():
            process.wait(LIMIT)
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            jobs = self.jobs()
            if jobs and not any(job["state"] in ("queued", "running") for job in jobs):
                return jobs
            time.sleep(0.1)
        raise AssertionError(f"jobs did not come to rest: {self.jobs()}")

    def close(self) -> None:
        """End every process of the world."""
        for _ in range(100):
            left = list(self.processes())
            for pid in left:
                _kill(pid)
            for process, _ in self.foreground.values():
                process.poll()
            if not left:
                return
            time.sleep(0.05)
        raise AssertionError("processes of this world are left")

    def started(self) -> list[Started]:
        """Return the lives of all commands; a killed one ends when SIGKILL was sent."""
        begins: dict[tuple[str, int], Started] = {}
        for line in self.log.read_text().splitlines():
            what, job, uptime, cpus, pid = line.split()
            if what == "start":
                assert (job, int(pid)) not in begins
                begins[job, int(pid)] = Started(
                    job, int(cpus), int(pid), float(uptime), self.kills.get(int(pid))
                )
            else:
                began = begins[job, int(pid)]
                begins[job, int(pid)] = Started(job, began.cpus, began.pid, began.begin, float(uptime))
        return list(begins.values())

    def outputs(self) -> set[str]:
        """Return the submitted jobs whose output is kept."""
        return {path.stem for path in self.folder.rglob("private/output/*.log")}


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def check(world: World, jobs: Sequence[Mapping[str, Any]]) -> None:
    """Assert what must hold after any faults."""
    by_id = {job["id"]: job for job in jobs}
    assert len(by_id) == len(jobs), "two jobs have one id"
    assert set(world.acknowledged) <= set(by_id), "an acknowledged job is lost"
    started = world.started()
    assert len({life.job for life in started}) == len(started), "a job was started twice"
    assert {life.job for life in started} <= set(by_id), "a command ran without a job"
    assert {life.job for life in started} & set(world.acknowledged) <= world.outputs(), "an output is lost"
    _check_bookings(started)
    for job in jobs:
        _check_outcome(job, {life.job: life for life in started}, world.acknowledged)
    for process, code in world.foreground.values():
        if process.pid not in world.kills:
            assert process.returncode in (code, 125, 128 + signal.SIGKILL, 128 + signal.SIGTERM)


def _check_bookings(started: Sequence[Started]) -> None:
    """Assert that at no time commands held more cores than the machine has."""
    resolution = 0.02  # /proc/uptime counts hundredths, and is read after the start and before the end
    for life in started:
        beside = [
            other
            for other in started
            if other.begin <= life.begin and (other.end or float("inf")) > life.begin + resolution
        ]
        assert sum(each.cpus for each in beside) <= CORES, f"cores were booked twice: {beside}"


def _check_outcome(job: Mapping[str, Any], lives: Mapping[str, Started], codes: Mapping[str, int]) -> None:
    if job["state"] == "done":
        assert job["exit_code"] == 0
        assert job["id"] in lives
    if job["state"] == "failed":
        assert job["reason"] or job["exit_code"], job
    if job["exit_code"] is not None and job["exit_code"] < 125 and job["id"] in codes:
        assert job["exit_code"] == codes[job["id"]]
