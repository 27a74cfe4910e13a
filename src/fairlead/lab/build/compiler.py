"""What a part needs that is partly written in C: a compiler, and the headers of its libraries.

The libraries come from Debian's packages, unpacked into the cache; nothing is installed on the host. They are
linked in whole, so that the program runs wherever its kernel does.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.build.cache import BuildCache
from fairlead.lab.build.debian import ensure_tools

_COMPILERS: Final = ("gcc", "cc", "clang")
_TRIAL: Final = "#include <sched.h>\nint main(void) { return 0; }\n"
_PACKAGES: Final = {"libseccomp": ("libseccomp-dev",)}
"""By pkg-config's name: what holds a library's headers and the library itself."""
_HOW: Final = "install a C compiler; on Debian: apt-get install gcc libc6-dev"


def find(environ: Mapping[str, str]) -> str | None:
    """Return the C compiler that builds would use: the user's choice, else the first that there is."""
    names = (environ["CC"],) if environ.get("CC") else _COMPILERS
    return next(
        (name for name in names if shutil.which(shlex.split(name)[0], path=environ.get("PATH"))), None
    )


def obstacle(environ: Mapping[str, str]) -> str:
    """Say why nothing in C can be built here; empty where it can."""
    found = find(environ)
    if found is None:
        return "no C compiler on this machine"
    argv = [*shlex.split(found), "-static", "-x", "c", "-o", os.devnull, "-"]
    trial = subprocess.run(  # noqa: S603  # no shell; the compiler is the user's own
        argv, input=_TRIAL, capture_output=True, check=False, text=True, env=dict(environ)
    )
    said = trial.stderr.strip().splitlines() or ["no reason given"]
    return f"the C compiler {found} does not work: {said[-1]}" if trial.returncode else ""


def environment(
    library: str, scratch: Path, cache: BuildCache, environ: Mapping[str, str], tick: Callable[[], None]
) -> dict[str, str]:
    """Return what Go must be told to link a library in; fetch the library where it is missing."""
    reason = obstacle(environ)
    if reason:
        raise LabError(f"{reason}, and {library} is written in C", hint=_HOW)
    root = ensure_tools(tick, packages=_PACKAGES[library], cache=cache, environ=environ).root
    archive = next(root.glob(f"usr/lib/*/{library}.a"))
    answers = {
        "--cflags": f"-I{root / 'usr/include'}",
        "--libs": f"-L{archive.parent} -l{library.removeprefix('lib')}",
    }
    # Go asks pkg-config, which would look in the host's /usr and may not be installed either.
    script = scratch / "pkg-config"
    cases = "\n".join(f"  {asked}) echo '{answer}' ;;" for asked, answer in answers.items())
    script.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}\nesac\n', encoding="utf-8")
    script.chmod(0o755)
    return {"CGO_ENABLED": "1", "CC": find(environ) or "", "PKG_CONFIG": str(script)}
