"""End a lab and leave nothing: no process, mount, namespace, control group or file."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.node import cgroups
from fairlead.lab.run import home, process
from fairlead.lab.run.home import LabHome
from fairlead.lab.run.state import Lab, load

_PATIENCE: Final = 10.0


@dataclass(frozen=True, slots=True)
class EndedLab:
    """A lab that was ended."""

    name: str
    processes: int
    """The number of processes that were still running."""


def down(where: LabHome, name: str) -> EndedLab:
    """End a lab, complete or half started; raise if another process is starting or ending it."""
    folder = where.folder(name)
    if not folder.exists():
        where.get(name)  # raises with the names of the existing labs
    with home.hold_lock(folder) as acquired:
        if not acquired:
            raise LabError(
                f"lab {name!r} is being started or ended by another process",
                hint="wait for it, or interrupt it, then run: fairlead lab reap",
            )
        return end(where, folder)


def reap(where: LabHome, on_ended: Callable[[EndedLab], None] = lambda ended: None) -> list[EndedLab]:
    """End every unused lab: its owner or its starter died, or the machine has rebooted since."""
    reaped = []
    for folder in where.folders():
        with home.hold_lock(folder) as acquired:
            if acquired and home.is_unused(folder):
                reaped.append(end(where, folder))
                on_ended(reaped[-1])
    return reaped


def end(where: LabHome, folder: Path) -> EndedLab:
    """End the processes of a folder's lab, then remove the folder; the caller holds the folder's lock."""
    lab = load(folder)
    count = _end_processes(folder, lab)
    stuck = [str(group) for group in cgroups.remove(folder)]
    if stuck:
        raise LabError(f"lab {folder.name!r}: control groups cannot be removed: {', '.join(stuck)}")
    home.remove(where, folder)
    if folder.exists():
        raise LabError(f"{folder}: some files cannot be removed", hint=f"list them: ls -lR {folder}")
    return EndedLab(folder.name, count)


def _end_processes(folder: Path, lab: Lab | None) -> int:
    """Kill every process until none is left that could start another; return how many there were.

    The init processes of the nodes go first: with them the kernel ends every process inside.
    """
    same_boot = lab is not None and lab.boot == process.boot_id()
    known = [node_ns.init for node_ns in lab.namespaces] if lab and same_boot else []
    known += [program.process for program in lab.programs] if lab and same_boot else []
    seen = {known_process for known_process in known if process.alive(known_process)}
    until = time.monotonic() + _PATIENCE
    left = process.kill(known, _PATIENCE)
    while marked := list(process.processes_of_lab(folder)):
        seen.update(marked)
        left = process.kill(marked, max(0.1, until - time.monotonic()))
        if time.monotonic() > until:
            break
    if left:
        pids = ", ".join(str(survivor.pid) for survivor in left)
        raise LabError(
            f"lab {folder.name!r}: processes survive SIGKILL: {pids}", hint="the kernel holds them; try again"
        )
    return len(seen)
