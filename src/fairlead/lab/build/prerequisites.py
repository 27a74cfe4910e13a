"""Everything that a profile needs before it can start: programs, tools, images."""

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
"""The one part with cgo: on a machine that cannot build it, the lab uses Debian's older one."""
_PHASE_TEXT: Final = {
    BuildPhase.WAIT: "waiting for another build of",
    BuildPhase.TOOLCHAIN: "fetching Go for",
    BuildPhase.FETCH: "fetching modules of",
    BuildPhase.COMPILE: "compiling",
    BuildPhase.LINK: "linking",
    BuildPhase.DONE: "built",
}


@dataclass(frozen=True, slots=True)
class Prerequisites:
    """The programs, tools and images of a lab."""

    programs: BuiltPrograms
    tools: DebianTools | None = None
    images: Path | None = None


def gather(profile: LabProfile, steps: StepPrinter, *, kwok: bool, more: Iterable[str] = ()) -> Prerequisites:
    """Return the prerequisites of a profile, with `more` programs; build and fetch the missing ones."""
    wanted = [*NEEDS[profile], *more, *(["kwok"] if kwok else [])]
    if profile is LabProfile.NODE:
        obstacle = "" if are_built([RUNC]) else compiler.obstacle(os.environ)
        if obstacle:
            steps.print_line(f"  {obstacle}: pods with hostUsers: false will not run (runc is Debian's)")
        else:
            wanted.append(RUNC)
    with steps.step("programs") as step:
        programs = ensure(wanted, lambda progress: _report(step, progress))
        if profile is not LabProfile.NODE:
            return Prerequisites(programs)
        tools = ensure_tools(step.tick)
        return Prerequisites(programs, tools, ensure_images(tools.busybox, programs["coredns"]))


def build(wanted: Iterable[str], steps: StepPrinter) -> BuiltPrograms:
    """Return programs that no profile needs; nothing is printed if all of them are built."""
    wanted = list(wanted)
    if are_built(wanted):
        return ensure(wanted)
    steps.print_line(announcement(wanted, default_environment()))
    with steps.step("programs") as step:
        return ensure(wanted, lambda progress: _report(step, progress))


def announcement(wanted: Iterable[str], build_env: BuildEnvironment) -> str:
    """Return the notice before a build: which programs, why, for how long, where, and how much disk."""
    names = set(wanted)
    parts = [part for part in build_env.parts if names.intersection((part.name, *part.programs))]
    programs = ", ".join(program for part in parts for program in part.programs)
    disk = format_bytes(Bytes(sum(part.disk for part in parts)))
    return (
        f"  {programs}: not built yet for this user. Compiled once, from the pinned Go sources, into "
        f"{build_env.cache.root}; about ten minutes on two cores, and up to {disk} of disk meanwhile."
    )


def _report(step: LabStep, progress: BuildProgress) -> None:
    step.report(progress.done, progress.total, f"{_PHASE_TEXT[progress.phase]} {progress.part}")
