"""Which Python goes into an image: this machine's own, or Debian's for another kind of machine.

Nothing of the other kind is run while the image is made: its packages are only unpacked, its libraries are
found by reading them, and its modules are compiled by Debian's Python of the same version for this machine.
"""

import os
import platform
import re
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fairlead.errors import UserError
from fairlead.lab.build.debian import DebianTools, ensure_tools
from fairlead.lab.build.modules import architecture as this_architecture

MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""The architectures for which Debian and the wheels have all that an image needs, with the kernel's names."""
_PACKAGES: Final = ("libpython3-stdlib", "libstdc++6", "python3-minimal")
_OF_A_VERSION: Final = re.compile(r"(lib)?python3\.\d+-(minimal|stdlib)")


@dataclass(frozen=True, slots=True)
class Python:
    """An interpreter with its modules, and what compiles for it."""

    architecture: str
    """As OCI and Kubernetes name it."""
    version: tuple[int, int]
    program: Path
    modules: Path
    """The folder of the standard library."""
    library: str
    """The folder in the image that holds the standard library's folder: lib, or lib64 on some systems."""
    compiler: tuple[str, ...]
    """A Python of this version that runs here."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """What the compiler needs on top of its environment."""
    root: Path | None = None
    """The unpacked packages; None: this machine itself."""
    libc: str = ""
    """The C library's version, where the root is not this machine's."""

    @property
    def standard(self) -> str:
        """Where the standard library lies in the image."""
        return f"usr/{self.library}/python{self.version[0]}.{self.version[1]}"


def choose(architecture: str, *, refresh: bool = False) -> Python:
    """Return the Python of an image for an architecture; empty: for machines of this kind."""
    here = this_architecture()
    if architecture in ("", here):
        return _own(here)
    if architecture not in MACHINES:
        raise UserError(
            f"no image can be made for the architecture {architecture!r}",
            hint=f"choose one of: {', '.join(sorted({here, *MACHINES}))}",
        )
    return _debian(architecture, refresh=refresh)


def _own(architecture: str) -> Python:
    # Not that of a virtual environment, which is a link or a copy that cannot stand alone.
    interpreter: str = getattr(sys, "_base_executable", "") or sys.executable
    return Python(
        architecture,
        sys.version_info[:2],
        Path(interpreter).resolve(),
        Path(sysconfig.get_path("stdlib")),
        sys.platlibdir,
        (interpreter,),
        libc=platform.libc_ver()[1],
    )


def _debian(architecture: str, *, refresh: bool) -> Python:
    theirs = ensure_tools(packages=_PACKAGES, architecture=architecture, refresh=refresh)
    program = _interpreter(theirs)
    names = tuple(sorted(name for name in theirs.versions if _OF_A_VERSION.fullmatch(name)))
    ours = ensure_tools(packages=names)
    major, minor = program.name.removeprefix("python").split(".")
    return Python(
        architecture,
        (int(major), int(minor)),
        program,
        theirs.root / "usr/lib" / program.name,
        "lib",
        (str(_interpreter(ours)),),
        # Else it takes its modules from the host, which may have another version of them.
        {**ours.environment(os.environ), "PYTHONHOME": str(ours.root / "usr")},
        theirs.root,
        theirs.versions["libc6"].partition("-")[0],
    )


def _interpreter(tools: DebianTools) -> Path:
    found = sorted(tools.root.glob("usr/bin/python3.[0-9]*"))
    if not found:
        raise UserError(f"{tools.root} has no Python", hint="remove the folder: it is fetched again")
    return found[0]
