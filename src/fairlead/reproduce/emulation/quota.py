"""A part of a CPU for an emulated host: by a control group, or by stopping and continuing its processes."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from fairlead.errors import EmulationError

ROOT: Final = Path("/sys/fs/cgroup")
PERIOD_US: Final = 10_000
"""Short, so that a stage of some milliseconds is slowed evenly; the kernel's default is 100 ms."""
_LEAST_US: Final = 1_000
"""The kernel takes no smaller quota: a small part has a longer period."""
_PREFIX: Final = "fairlead-emulation-"
_CYCLE_S: Final = 0.02
_PATIENCE: Final = 5.0


class CpuQuota(Protocol):
    """What holds a program and its children to a part of a CPU."""

    @property
    def label(self) -> str:
        """How it does so, for people."""
        ...

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that starts a program under the quota."""
        ...

    def on_start(self, pid: int) -> None:
        """Take note of a program that was started as the leader of a process group."""
        ...


@dataclass(frozen=True, slots=True)
class GroupQuota:
    """A control group with a bandwidth."""

    folder: Path
    label: str

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return a command line that first moves itself into the group."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *argv]

    def on_start(self, pid: int) -> None:
        """Need nothing: children are in the group."""


class DutyCycle:
    """Stops and continues process groups in turn, where no control group can be made."""

    label = "SIGSTOP and SIGCONT in turn"

    def __init__(self, share: float) -> None:
        self._share = share
        self._groups: set[int] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._cycle, daemon=True)
        self._thread.start()

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line as it is."""
        return list(argv)

    def on_start(self, pid: int) -> None:
        """Slow down a process group."""
        self._groups.add(pid)

    def close(self) -> None:
        """Let every group go on."""
        self._ended.set()
        self._thread.join()
        self._send(signal.SIGCONT)

    def _cycle(self) -> None:
        while not self._ended.wait(_CYCLE_S * self._share):
            self._send(signal.SIGSTOP)
            self._ended.wait(_CYCLE_S * (1 - self._share))
            self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        for group in tuple(self._groups):
            with suppress(OSError):
                os.killpg(group, number)


@contextmanager
def cpu_quota(share: float, root: Path = ROOT) -> Iterator[CpuQuota]:
    """Yield what holds programs to a part of one CPU, by the best way that this machine has."""
    remove_stale(root)
    try:
        group = _create(root, share)
    except OSError:
        cycle = DutyCycle(share)
        try:
            yield cycle
        finally:
            cycle.close()
        return
    try:
        yield group
    finally:
        _remove(group.folder)


def remove_stale(root: Path = ROOT) -> None:
    """Remove the groups of programs that were killed before they could."""
    for parent in (root, root / "cpu"):
        for folder in parent.glob(f"{_PREFIX}*"):
            pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
            if not (Path("/proc") / pid).exists():
                with suppress(OSError):
                    folder.rmdir()


def hold_group(name: str, share: float, root: Path = ROOT) -> str:
    """Hold a control group, with all below it, to a part of one CPU, and return how; EmulationError."""
    parent, files, label = _bandwidth(root, share)
    try:
        _write(parent / name, files)
    except OSError as error:
        raise EmulationError(f"the control group {name} takes no CPU quota: {error.strerror}") from None
    return label


def _bandwidth(root: Path, share: float) -> tuple[Path, dict[str, str], str]:
    """Return where groups are, the files that give one a part of a CPU, and the words for people."""
    period = max(PERIOD_US, round(_LEAST_US / share))
    quota = round(period * share)
    if (root / "cgroup.controllers").exists():
        return root, {"cpu.max": f"{quota} {period}"}, f"cgroup v2 cpu.max {quota}/{period} us"
    files = {"cpu.cfs_period_us": f"{period}", "cpu.cfs_quota_us": f"{quota}"}
    return root / "cpu", files, f"cgroup v1 cpu.cfs_quota {quota}/{period} us"


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for file, text in files.items():
        with open(folder / file, "r+", encoding="ascii") as setting:  # a file that is missing is not made
            setting.write(text)


def _create(root: Path, share: float) -> GroupQuota:
    """Make a group; OSError where none can be made."""
    parent, files, label = _bandwidth(root, share)
    folder = parent / f"{_PREFIX}{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir()
    try:
        _write(folder, files)
    except OSError:
        with suppress(OSError):
            folder.rmdir()
        raise
    if shutil.which("sh") is None:
        raise EmulationError("sh is missing: install a shell")
    return GroupQuota(folder, label)


def _remove(folder: Path) -> None:
    """End what is left in a group, and remove it."""
    until = time.monotonic() + _PATIENCE
    while folder.exists() and time.monotonic() < until:
        with suppress(OSError, ValueError):
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        with suppress(OSError):
            folder.rmdir()
        time.sleep(0.02)
