"""Everything that a profile needs before anything can be started: programs, tools, images."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.lab.build import compiler
from fairlead.lab.build.debian import DebianTools, ensure_tools
from fairlead.lab.build.images import ensure_images
from fairlead.lab.build.programs import (
    BuildEnvironment,
    BuildPhase,
    BuildProgress,
    BuiltPrograms,
    are_built,
    default_environment,
    ensure,
)
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.steps import LabStep, StepPrinter
from fairlead.units import Bytes, format_bytes

NEEDS: Final = {
    LabProfile.API: ("etcd", "kube-apiserver", "kubectl"),
    LabProfile.CONTROL: ("kube", "kwok"),
    LabProfile.NODE: ("kube", "node", "dns"),
}
RUNC: Final = "runc"
"""The one part that is partly written in C: where it cannot be built, Debian's older one serves."""
_DOING: Final = {
    BuildPhase.WAIT: "waiting for another build of",
    BuildPhase.TOOLCHAIN: "fetching Go for",
    BuildPhase.FETCH: "fetching modules of",
    BuildPhase.COMPILE: "compiling",
    BuildPhase.LINK: "linking",
    BuildPhase.DONE: "built",
}


@dataclass(frozen=True, slots=True)
class Prerequisites:
    """What a lab is made of."""

    programs: BuiltPrograms
    tools: DebianTools | None = None
    images: Path | None = None


def gather(
    profile: LabProfile, narrator: StepPrinter, *, kwok: bool, more: Iterable[str] = ()
) -> Prerequisites:
    """Return what a profile needs, and `more` programs; build and fetch what is missing."""
    wanted = [*NEEDS[profile], *more, *(["kwok"] if kwok else [])]
    if profile is LabProfile.NODE:
        obstacle = "" if are_built([RUNC]) else compiler.obstacle(os.environ)
        if obstacle:
            narrator.print_line(f"  {obstacle}: pods with hostUsers: false will not run (runc is Debian's)")
        else:
            wanted.append(RUNC)
    with narrator.step("programs") as step:
        programs = ensure(wanted, lambda progress: _tell(step, progress))
        if profile is not LabProfile.NODE:
            return Prerequisites(programs)
        tools = ensure_tools(step.tick)
        return Prerequisites(programs, tools, ensure_images(tools.busybox, programs["coredns"]))


def build(wanted: Iterable[str], narrator: StepPrinter) -> BuiltPrograms:
    """Return programs that no profile needs; nothing is said where all of them are there."""
    wanted = list(wanted)
    if are_built(wanted):
        return ensure(wanted)
    narrator.print_line(announcement(wanted, default_environment()))
    with narrator.step("programs") as step:
        return ensure(wanted, lambda progress: _tell(step, progress))


def announcement(wanted: Iterable[str], site: BuildEnvironment) -> str:
    """Return what to say before programs are compiled: why, how long that takes, where they go, how large."""
    names = set(wanted)
    parts = [part for part in site.parts if names.intersection((part.name, *part.programs))]
    programs = ", ".join(program for part in parts for program in part.programs)
    room = format_bytes(Bytes(sum(part.disk for part in parts)))
    return (
        f"  {programs}: not built yet for this user. Compiled once, from the pinned Go sources, into "
        f"{site.cache.root}; about ten minutes on two cores, and up to {room} of disk meanwhile."
    )


def _tell(step: LabStep, progress: BuildProgress) -> None:
    step.report(progress.done, progress.total, f"{_DOING[progress.phase]} {progress.part}")
