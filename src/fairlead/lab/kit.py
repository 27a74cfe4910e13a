"""Everything that a profile needs before anything can be started: programs, tools, images."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.lab import compiler
from fairlead.lab.build import Phase, Programs, Progress, Site, default_site, ensure, have
from fairlead.lab.debian import Tools, ensure_tools
from fairlead.lab.images import ensure_images
from fairlead.lab.narrate import Narrator, Step
from fairlead.lab.state import Profile
from fairlead.units import Bytes, format_bytes

NEEDS: Final = {
    Profile.API: ("etcd", "kube-apiserver", "kubectl"),
    Profile.CONTROL: ("kube", "kwok"),
    Profile.NODE: ("kube", "node", "dns"),
}
RUNC: Final = "runc"
"""The one part that is partly written in C: where it cannot be built, Debian's older one serves."""
_DOING: Final = {
    Phase.WAIT: "waiting for another build of",
    Phase.TOOLCHAIN: "fetching Go for",
    Phase.FETCH: "fetching modules of",
    Phase.COMPILE: "compiling",
    Phase.LINK: "linking",
    Phase.DONE: "built",
}


@dataclass(frozen=True, slots=True)
class Kit:
    """What a lab is made of."""

    programs: Programs
    tools: Tools | None = None
    images: Path | None = None


def gather(profile: Profile, narrator: Narrator, *, kwok: bool, more: Iterable[str] = ()) -> Kit:
    """Return what a profile needs, and `more` programs; build and fetch what is missing."""
    wanted = [*NEEDS[profile], *more, *(["kwok"] if kwok else [])]
    if profile is Profile.NODE:
        obstacle = "" if have([RUNC]) else compiler.obstacle(os.environ)
        if obstacle:
            narrator.say(f"  {obstacle}: pods with hostUsers: false will not run (runc is Debian's)")
        else:
            wanted.append(RUNC)
    with narrator.step("programs") as step:
        programs = ensure(wanted, lambda progress: _tell(step, progress))
        if profile is not Profile.NODE:
            return Kit(programs)
        tools = ensure_tools(step.tick)
        return Kit(programs, tools, ensure_images(tools.busybox, programs["coredns"]))


def build(wanted: Iterable[str], narrator: Narrator) -> Programs:
    """Return programs that no profile needs; nothing is said where all of them are there."""
    wanted = list(wanted)
    if have(wanted):
        return ensure(wanted)
    narrator.say(announcement(wanted, default_site()))
    with narrator.step("programs") as step:
        return ensure(wanted, lambda progress: _tell(step, progress))


def announcement(wanted: Iterable[str], site: Site) -> str:
    """Return what to say before programs are compiled: why, how long that takes, where they go, how large."""
    names = set(wanted)
    parts = [each for each in site.parts if names.intersection((each.name, *each.programs))]
    programs = ", ".join(program for each in parts for program in each.programs)
    room = format_bytes(Bytes(sum(each.room for each in parts)))
    return (
        f"  {programs}: not built yet for this user. Compiled once, from the pinned Go sources, into "
        f"{site.cache.root}; about ten minutes on two cores, and up to {room} of disk meanwhile."
    )


def _tell(step: Step, progress: Progress) -> None:
    step.at(progress.done, progress.total, f"{_DOING[progress.phase]} {progress.part}")
