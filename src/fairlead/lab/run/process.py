"""Processes that the lab started: which they are, whether they live, and how they end.

A number alone names no process: it is given out again. So each is kept with the moment it started, as the
kernel counts it, and is only signalled through a handle that was opened before that moment was compared.
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
"""In the environment of everything that a lab starts: the folder of the lab.

It finds what no list holds: a program whose starter was killed before it could write it down.
"""
_CHILDREN: Final[dict[int, "subprocess.Popen[bytes]"]] = {}
"""Python forgets a child only through the object that started it; forgotten ones stay as zombies."""


@atexit.register
def _let_go() -> None:
    """Let the programs of a lab outlive this Python, which would warn of each as of one left by mistake."""
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
    """Return the name of this boot: what was started before it is gone."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def find(pid: int) -> Process | None:
    """Return the living process of this number; None where there is none."""
    fields = _stat(pid)
    # A zombie holds nothing but its number.
    return None if fields is None or fields[0] in "ZX" else Process(pid, int(fields[19]))


def alive(process: Process) -> bool:
    """Say whether this very process still runs."""
    exit_code(process)
    return find(process.pid) == process


def exit_code(process: Process) -> int | None:
    """Return how a program that we started ended; None while it runs, or where another started it."""
    child = _CHILDREN.get(process.pid)
    return None if child is None else child.poll()


def parent(pid: int) -> int | None:
    """Return the number of a process's parent."""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def memory(process: Process) -> int:
    """Return the bytes that a process holds in RAM; 0 where it is gone."""
    try:
        pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def start(
    argv: Sequence[str], log: Path, folder: Path, env: Mapping[str, str], *, hand: Sequence[int] = ()
) -> Process:
    """Start a program of the lab in `folder`; it outlives us, and prints into `log`."""
    with log.open("ab") as output:
        child = subprocess.Popen(  # noqa: S603  # no shell; every argument is ours or a path
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**env, FOLDER_VARIABLE: str(folder)},
            cwd=folder,
            start_new_session=True,
            pass_fds=hand,
        )
    _CHILDREN[child.pid] = child
    # Ours to reap, so the number cannot have been given out again, even if it has ended.
    fields = _stat(child.pid)
    return Process(child.pid, int(fields[19]) if fields else 0)


def send_signal(process: Process, number: int) -> bool:
    """Send a signal to this very process and to no other; return whether it was there."""
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
    wanted = f"{FOLDER_VARIABLE}={folder}".encode()
    for pid in pids():
        if pid == os.getpid():
            continue
        with suppress(OSError):
            process = find(pid)
            if process and wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                yield process


def pids() -> list[int]:
    """Return the number of every process."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def children(pid: int) -> list[Process]:
    """Return the living children of a process."""
    return [child for each in pids() if parent(each) == pid and (child := find(each))]


def kill(processes: Iterable[Process], patience: float = 10.0) -> list[Process]:
    """Kill processes and wait until they are gone; return those that would not go.

    Nothing of a lab is worth a farewell: its files go with it, and an API server with open watches takes
    more than 15 seconds to say goodbye.
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
