"""Start, identify, signal and kill the processes of a lab.

A PID alone does not identify a process: the kernel reuses it. So each process is recorded with its start
time in clock ticks, and is only signalled through a pidfd that was opened before the start time was compared.
"""

import atexit
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER_VARIABLE: Final = "FAIRLEAD_LAB_FOLDER"
"""The environment variable of every process of a lab: the folder of the lab.

It finds a program that the state file lacks, because its starter was killed before it could record it.
"""
_CHILDREN: Final[dict[int, "subprocess.Popen[bytes]"]] = {}
"""Python reaps a child only through its Popen object; without the object the child stays a zombie."""


@atexit.register
def _detach_children() -> None:
    """Let the programs of a lab outlive this interpreter, which would emit a ResourceWarning for each."""
    for child in _CHILDREN.values():
        if child.poll() is None:
            child.returncode = 0


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this boot."""

    pid: int
    started: int
    """In clock ticks since boot."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the state file."""
        return {"pid": self.pid, "started": self.started}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> "Process":
        """Read the fields of the state file."""
        return Process(int(fields["pid"]), int(fields["started"]))


def boot_id() -> str:
    """Return the identifier of this boot: a process of an earlier boot is gone."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def find(pid: int) -> Process | None:
    """Return the running process with this PID; None if there is none."""
    fields = _stat(pid)
    if fields is None or fields[0] == "X":
        return None
    # A zombie holds nothing but its PID, once its last thread has ended: until then its ports are taken.
    if fields[0] == "Z" and int(fields[17]) <= 1:
        return None
    return Process(pid, int(fields[19]))


def alive(process: Process) -> bool:
    """Return whether this process, and not another with its PID, still runs."""
    exit_code(process)
    return find(process.pid) == process


def exit_code(process: Process) -> int | None:
    """Return the exit code of a child; None while it runs, or if another process started it."""
    child = _CHILDREN.get(process.pid)
    return None if child is None else child.poll()


def parent(pid: int) -> int | None:
    """Return the PID of a process's parent."""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def memory(process: Process) -> int:
    """Return the resident memory of a process in bytes; 0 if it is gone."""
    try:
        pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def start(
    argv: Sequence[str], log: Path, folder: Path, env: Mapping[str, str], *, pass_fds: Sequence[int] = ()
) -> Process:
    """Start a program of the lab in `folder`; it outlives this process, and its output goes to `log`."""
    with log.open("ab") as output:
        child = subprocess.Popen(  # noqa: S603  # no shell; every argument is ours or a path
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**env, FOLDER_VARIABLE: str(folder)},
            cwd=folder,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    _CHILDREN[child.pid] = child
    # A child stays a zombie until it is reaped, so its PID is not reused even if it has ended.
    fields = _stat(child.pid)
    return Process(child.pid, int(fields[19]) if fields else 0)


def send_signal(process: Process, number: int) -> bool:
    """Send a signal to this process and to no other with its PID; return whether it was running."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def processes_of_lab(folder: Path) -> Iterator[Process]:
    """Yield every process of this user that was started for the lab in `folder`."""
    variable = f"{FOLDER_VARIABLE}={folder}".encode()
    for pid in pids():
        if pid == os.getpid():
            continue
        with suppress(OSError):
            process = find(pid)
            if process and variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                yield process


def pids() -> list[int]:
    """Return the PID of every process."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def children(pid: int) -> list[Process]:
    """Return the running children of a process."""
    return [child for candidate in pids() if parent(candidate) == pid and (child := find(candidate))]


def kill(processes: Iterable[Process], patience: float = 10.0) -> list[Process]:
    """Send SIGKILL to processes and wait until they are gone; return those that still run.

    No process of a lab needs a graceful shutdown: its files are removed with it, and an API server with open
    watches takes more than 15 seconds to shut down.
    """
    left = list(processes)
    for process in left:
        send_signal(process, signal.SIGKILL)
    until = time.monotonic() + patience
    while (left := [process for process in left if alive(process)]) and time.monotonic() < until:
        time.sleep(0.01)
    return left


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on; the name before them may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
