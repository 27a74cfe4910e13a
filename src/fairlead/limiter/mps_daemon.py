"""MpsDaemon: starts, watches and ends the daemon of CUDA's Multi-Process Service in one folder."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from fairlead.limiter.mps import LOG, PIPE, PROCESS_NAME, MpsFolder
from fairlead.limiter.process import RunningProcess, find_process

START_LIMIT: Final = 10.0
"""Seconds: the daemon needs 0.05, on a busy machine more."""
ANSWER_LIMIT: Final = 5.0
"""Seconds: a command is answered in 0.01, `quit -t 1` in up to one second."""
_MOMENT: Final = 0.5
"""Seconds that a process may need to end after the daemon has answered."""
_PASSES: Final = 16
_PAUSE: Final = 0.01
_PID_FILE: Final = "nvidia-cuda-mps-control.pid"
_OUTPUT: Final = "start"
_MODE: Final = 0o700
_KEPT: Final = ("LD_LIBRARY_PATH", "PATH")


class MpsDaemon:
    """The daemon in one folder. It has no parent: it outlives the process that starts it."""

    def __init__(self, folder: MpsFolder, program: str) -> None:
        self.folder = folder
        self.program = program

    def start(
        self, variables: Mapping[str, str], limit: float = START_LIMIT, arguments: Sequence[str] = ()
    ) -> str:
        """Start the daemon and wait until it lives; return why it does not, in one line. Empty: it lives."""
        try:
            for path in (self.folder.path, self.folder.pipe, self.folder.log):
                with suppress(FileExistsError):
                    os.mkdir(path, _MODE)
            failure = self._launch(variables, limit, arguments)
        except subprocess.TimeoutExpired:
            failure = f"{self.program} did not return within {limit:g} s"
        except OSError as error:
            failure = f"{error.filename or self.program}: {error.strerror}"
        if failure:
            return failure
        if not _until(self.is_alive, limit):
            return f"{self.program} ended at once; its logs are in {self.folder.log}"
        return ""

    def pid(self) -> int | None:
        """Return the pid that the daemon has written; None: it has ended in order, or never started."""
        return _written_pid(self.folder.pipe)

    def process(self) -> RunningProcess | None:
        """Return the living daemon; None: there is none, whatever a killed one has left."""
        return find_daemon(self.folder.pipe)

    def is_alive(self) -> bool:
        """Return whether the daemon lives."""
        return self.process() is not None

    def servers(self) -> tuple[int, ...]:
        """Return the pids of its servers; the first client makes the daemon start one."""
        answer = self.send("get_server_list")
        return tuple(int(word) for word in answer.split() if word.isdecimal())

    def quit(self) -> bool:
        """End the daemon and its servers, whatever clients do; return whether none of them is left."""
        daemon = self.process()
        if daemon is not None:
            servers = [process for pid in self.servers() if (process := find_process(pid)) is not None]
            self.send("quit -t 1")
            for process in (daemon, *servers):
                if not _has_ended(process, _MOMENT):
                    process.kill()
        return self._kill_strays()

    def _kill_strays(self) -> bool:
        """End what has no pid file yet, or no folder any more; return whether nothing is left.

        A starter that is killed leaves a daemon that is about to start.
        """
        for _ in range(_PASSES):
            strays = [process for pid in _own_pids() if (process := self._stray(pid)) is not None]
            if not strays:
                return True
            for process in strays:
                process.kill()
                _has_ended(process, ANSWER_LIMIT)
        return False

    def _stray(self, pid: int) -> RunningProcess | None:
        process = find_process(pid)
        return process if process is not None and _is_daemon(pid, self.folder.pipe, named=True) else None

    def _launch(self, variables: Mapping[str, str], limit: float, arguments: Sequence[str]) -> str:
        """Run the program, which returns once its daemon is on its own; return why it refused."""
        output = os.path.join(self.folder.log, _OUTPUT)
        with open(output, "w+b", buffering=0) as file:  # no pipe: the daemon would keep it open
            done = subprocess.run(  # noqa: S603  # the driver's own program, no shell
                [self.program, "-d", *arguments],
                env={**_environment(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd="/",
                start_new_session=True,
                timeout=limit,
                check=False,
            )
            file.seek(0)
            text = " ".join(file.read(1024).decode("utf-8", "replace").split())
        if not done.returncode or self.is_alive():  # a second daemon in one folder is refused
            return ""
        return f"{self.program} -d: exit code {done.returncode}{': ' if text else ''}{text}"

    def send(self, command: str) -> str:
        """Send one command to the daemon; return its answer, empty where it gives none in time."""
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(  # noqa: S603  # likewise
                [self.program],
                env={**_environment(), PIPE: self.folder.pipe, LOG: self.folder.log},
                input=f"{command}\n".encode(),
                capture_output=True,
                cwd="/",
                timeout=ANSWER_LIMIT,
                check=False,
            )
            return done.stdout.decode("ascii", "replace")
        return ""


def find_daemon(pipe: str) -> RunningProcess | None:
    """Return the living daemon with this folder of sockets; None: there is none, or it is hidden."""
    pid = _written_pid(pipe)
    found = find_process(pid) if pid is not None else None
    return found if found is not None and _is_daemon(found.pid, pipe) else None


def _written_pid(pipe: str) -> int | None:
    try:
        with open(os.path.join(pipe, _PID_FILE), encoding="ascii", errors="replace") as file:
            text = file.read(32).strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _own_pids() -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                found.append(int(name))
    return found


def _is_daemon(pid: int, pipe: str, *, named: bool = False) -> bool:
    """Return whether a process may be the daemon: others can have the pid that a killed one has left.

    With `named` it must name the folder itself.
    """
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as comm:
            if comm.read().strip() != PROCESS_NAME:
                return False
        with open(f"/proc/{pid}/environ", "rb") as environ:
            variables = dict(word.partition(b"=")[::2] for word in environ.read().split(b"\0"))
    except OSError:  # another user's
        return not named and find_process(pid) is not None
    other = variables.get(os.fsencode(PIPE), b"" if named else os.fsencode(pipe))
    return os.path.realpath(other) == os.fsencode(os.path.realpath(pipe))


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _KEPT}


def _has_ended(process: RunningProcess, limit: float) -> bool:
    return _until(lambda: not process.is_alive(), limit)


def _until(arrived: Callable[[], bool], limit: float) -> bool:
    end = time.monotonic() + limit
    while not arrived():
        if time.monotonic() >= end:
            return False
        time.sleep(_PAUSE)
    return True
