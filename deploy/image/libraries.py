"""The shared libraries that programs need, as the machine's own loader finds them."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from deploy.image import elf

from fairlead.errors import UserError

_FOUND: Final = re.compile(r"^\s*(?P<name>\S+) => (?P<path>\S+) \(0x", re.MULTILINE)
_MISSING: Final = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_ASKED_FOR_LATER: Final = ("libgcc_s.so.1",)
"""glibc opens it when a thread ends itself, and aborts the program where it is not there."""
_ASKED_FOR_MAYBE: Final = (
    *("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"),  # names of hosts, before glibc 2.34
    *("libpthread.so.0", "libdl.so.2", "librt.so.1"),  # NVIDIA's library names them, also after 2.34
)


def closure(program: Path, modules: Iterable[Path]) -> dict[str, Path]:
    """Return every library that a program and the modules it loads need, by its path in the image.

    All lie in the folder of the C library: a loader looks there of itself, so neither a cache of its own nor
    a variable is needed.
    """
    ours = {program.resolve(), *(each.resolve() for each in modules)}
    loader = elf.loader(program.read_bytes())
    found: dict[str, Path] = {}
    for each in (program, *modules):
        found |= _needed(loader, each)
    home = next((path.parent for name, path in found.items() if name.startswith("libc.")), None)
    if not loader or home is None:
        raise UserError(f"{program} is not linked to a C library", hint="use a Python that is")
    for name in (*_ASKED_FOR_LATER, *_ASKED_FOR_MAYBE):
        if (home / name).exists():
            found.setdefault(name, home / name)
        elif name in _ASKED_FOR_LATER:
            raise UserError(f"{home} has no {name}", hint="on Debian: apt-get install libgcc-s1")
    wanted = {f"{home}/{name}": path for name, path in found.items() if path.resolve() not in ours}
    return {each.removeprefix("/"): path for each, path in {**wanted, loader: Path(loader)}.items()}


def _needed(loader: str, path: Path) -> dict[str, Path]:
    """Return where the loader finds each library of a file, and of its libraries in turn."""
    asked = subprocess.run([loader, "--list", path], capture_output=True, check=False, text=True)  # noqa: S603  # ours
    missing = _MISSING.findall(asked.stdout)
    if missing or asked.returncode:
        reason = f"{', '.join(missing)} is not on this machine" if missing else asked.stderr.strip()
        raise UserError(f"{path} cannot be loaded: {reason}", hint="install what it needs, or repair it")
    return {hit["name"]: Path(hit["path"]) for hit in _FOUND.finditer(asked.stdout)}
