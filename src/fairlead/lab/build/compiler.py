"""The C compiler and the headers that a part with cgo needs.

The libraries come from Debian's packages, unpacked into the cache; nothing is installed on the host. They are
linked statically, so the program runs on every distribution of the same kernel.
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
"""By pkg-config's name: the packages that hold a library's headers and its archive."""
_HINT: Final = "install a C compiler; on Debian: apt-get install gcc libc6-dev"


def find(environ: Mapping[str, str]) -> str | None:
    """Return the C compiler of a build: the one that CC names, else the first that PATH has."""
    names = (environ["CC"],) if environ.get("CC") else _COMPILERS
    return next(
        (name for name in names if shutil.which(shlex.split(name)[0], path=environ.get("PATH"))), None
    )


def obstacle(environ: Mapping[str, str]) -> str:
    """Return why this machine cannot build C code; empty if it can."""
    compiler = find(environ)
    if compiler is None:
        return "no C compiler on this machine"
    argv = [*shlex.split(compiler), "-static", "-x", "c", "-o", os.devnull, "-"]
    trial = subprocess.run(  # noqa: S603  # no shell; the compiler is the user's own
        argv, input=_TRIAL, capture_output=True, check=False, text=True, env=dict(environ)
    )
    lines = trial.stderr.strip().splitlines() or ["no reason given"]
    return f"the C compiler {compiler} does not work: {lines[-1]}" if trial.returncode else ""


def environment(
    library: str, scratch: Path, cache: BuildCache, environ: Mapping[str, str], tick: Callable[[], None]
) -> dict[str, str]:
    """Return the variables with which Go links a C library; fetch the library if it is missing."""
    reason = obstacle(environ)
    if reason:
        raise LabError(f"{reason}, and {library} is written in C", hint=_HINT)
    root = ensure_tools(tick, packages=_PACKAGES[library], cache=cache, environ=environ).root
    archive = next(root.glob(f"usr/lib/*/{library}.a"))
    replies = {
        "--cflags": f"-I{root / 'usr/include'}",
        "--libs": f"-L{archive.parent} -l{library.removeprefix('lib')}",
    }
    # Go runs pkg-config, which searches the host's /usr and may be absent itself.
    script = scratch / "pkg-config"
    cases = "\n".join(f"  {option}) echo '{reply}' ;;" for option, reply in replies.items())
    script.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}\nesac\n', encoding="utf-8")
    script.chmod(0o755)
    return {"CGO_ENABLED": "1", "CC": find(environ) or "", "PKG_CONFIG": str(script)}
