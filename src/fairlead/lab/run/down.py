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
    """A lab that is gone."""

    name: str
    processes: int
    """How many were still running."""


def down(where: LabHome, name: str) -> EndedLab:
    """End a lab, whole or half, that nobody else is starting or ending."""
    folder = where.folder(name)
    if not folder.exists():
        where.get(name)  # raises, and says which labs there are
    with home.hold_lock(folder) as ours:
        if not ours:
            raise LabError(
                f"lab {name!r} is being started or ended by another process",
                hint="wait for it, or interrupt it and run: fairlead lab reap",
            )
        return end(where, folder)


def reap(where: LabHome, tell: Callable[[EndedLab], None] = lambda ended: None) -> list[EndedLab]:
    """End every lab that nobody wants: its owner or its starter died, or the machine booted since."""
    reaped = []
    for folder in where.folders():
        with home.hold_lock(folder) as ours:
            if ours and home.is_unused(folder):
                reaped.append(end(where, folder))
                tell(reaped[-1])
    return reaped


def end(where: LabHome, folder: Path) -> EndedLab:
    """End what a folder's lab has started, then remove the folder; to be called by the holder of its lock."""
    lab = load(folder)
    count = _end_processes(folder, lab)
    stuck = [str(group) for group in cgroups.remove(folder)]
    if stuck:
        raise LabError(f"lab {folder.name!r}: control groups will not go: {', '.join(stuck)}")
    home.remove(where, folder)
    if folder.exists():
        raise LabError(f"{folder}: some of its files will not go", hint=f"look with: ls -lR {folder}")
    return EndedLab(folder.name, count)


def _end_processes(folder: Path, lab: Lab | None) -> int:
    """Kill everything until nothing is left that could start anew; return how many there were.

    The first processes of the nodes go first: with them the kernel ends whatever runs inside.
    """
    same_boot = lab is not None and lab.boot == process.boot_id()
    known = [space.init for space in lab.namespaces] if lab and same_boot else []
    known += [program.process for program in lab.programs] if lab and same_boot else []
    seen = {each for each in known if process.alive(each)}
    until = time.monotonic() + _PATIENCE
    left = process.kill(known, _PATIENCE)
    while marked := list(process.processes_of_lab(folder)):
        seen.update(marked)
        left = process.kill(marked, max(0.1, until - time.monotonic()))
        if time.monotonic() > until:
            break
    if left:
        numbers = ", ".join(str(each.pid) for each in left)
        raise LabError(
            f"lab {folder.name!r}: processes will not end: {numbers}", hint="the kernel holds them; try again"
        )
    return len(seen)
