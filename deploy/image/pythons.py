"""The Python of an image: this machine's own, or Debian's for another architecture.

No foreign program runs during the build: the packages are only unpacked, the libraries are found by parsing
them, and the modules are compiled by Debian's Python of the same version for this machine.
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
_VERSIONED: Final = re.compile(r"(lib)?python3\.\d+-(minimal|stdlib)")


@dataclass(frozen=True, slots=True)
class Python:
    """An interpreter with its modules, and the interpreter that compiles for it."""

    architecture: str
    """OCI's and Kubernetes' name of it."""
    version: tuple[int, int]
    program: Path
    modules: Path
    """The folder of the standard library."""
    library: str
    """The folder in the image that holds the standard library's folder: lib, or lib64 on some systems."""
    compiler: tuple[str, ...]
    """A Python of this version that runs here."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Additional variables of the compiler."""
    root: Path | None = None
    """The unpacked packages; None: this machine itself."""
    libc: str = ""
    """The C library's version."""

    @property
    def standard(self) -> str:
        """The path of the standard library in the image."""
        return f"usr/{self.library}/python{self.version[0]}.{self.version[1]}"


def choose(architecture: str, *, refresh: bool = False) -> Python:
    """Return the Python of an image for an architecture; empty: this machine's."""
    here = this_architecture()
    if architecture in ("", here):
        return _own(here)
    if architecture not in MACHINES:
        raise UserError(
            f"no image can be built for the architecture {architecture!r}",
            hint=f"choose one of: {', '.join(sorted({here, *MACHINES}))}",
        )
    return _debian(architecture, refresh=refresh)


def _own(architecture: str) -> Python:
    # Not that of a virtual environment, which is a link or a copy that does not run alone.
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
    foreign = ensure_tools(packages=_PACKAGES, architecture=architecture, refresh=refresh)
    program = _interpreter(foreign)
    names = tuple(sorted(name for name in foreign.versions if _VERSIONED.fullmatch(name)))
    native = ensure_tools(packages=names)
    major, minor = program.name.removeprefix("python").split(".")
    return Python(
        architecture,
        (int(major), int(minor)),
        program,
        foreign.root / "usr/lib" / program.name,
        "lib",
        (str(_interpreter(native)),),
        # Otherwise it imports its modules from the host, which may have another version.
        {**native.environment(os.environ), "PYTHONHOME": str(native.root / "usr")},
        foreign.root,
        foreign.versions["libc6"].partition("-")[0],
    )


def _interpreter(tools: DebianTools) -> Path:
    programs = sorted(tools.root.glob("usr/bin/python3.[0-9]*"))
    if not programs:
        raise UserError(f"{tools.root} has no Python", hint="remove the folder, and it is fetched again")
    return programs[0]
