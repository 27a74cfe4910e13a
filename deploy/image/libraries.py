"""The shared libraries that programs need, as the loader finds them.

This machine's own loader is asked for this machine's programs. Those of another kind of machine are read:
their loader cannot run here, and looks in two folders only, below the root of their unpacked packages.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from deploy.image import elf
from fairlead.errors import UserError

_FOUND: Final = re.compile(r"^\s*(?P<name>\S+) => (?P<path>\S+) \(0x", re.MULTILINE)
_MISSING: Final = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_OPENED_LATER: Final = (
    "libgcc_s.so.1",  # by glibc, when a thread ends itself; it ends the whole program where there is none
    *("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"),  # names of hosts, before glibc 2.34
    *("libpthread.so.0", "libdl.so.2", "librt.so.1"),  # NVIDIA's library names them, also after 2.34
)
"""What no program names, as far as there is such a library."""


def closure(program: Path, modules: Iterable[Path], root: Path | None = None) -> dict[str, Path]:
    """Return every library that a program and the modules it loads need, by its path in the image.

    All lie in the folder of the C library: a loader looks there of itself, so neither a cache of its own nor
    a variable is needed. A `root` holds the libraries of another kind of machine.
    """
    loader = elf.loader(program.read_bytes())
    if not loader:
        raise UserError(f"{program} is linked to no C library", hint="run this with a Python that is")
    ours = {program, *modules}
    found: dict[str, Path] = {}
    for each in ours:
        found |= _needed(loader, each) if root is None else _read(root, each, found)
    home = next(path.parent for name, path in found.items() if name.startswith("libc."))
    found |= {name: home / name for name in _OPENED_LATER if (home / name).exists()}
    inside = home if root is None else "/" / home.relative_to(root)
    wanted = {f"{inside}/{name}": path for name, path in found.items() if path not in ours}
    where = Path(loader) if root is None else _below(root, loader)
    return {each.removeprefix("/"): path for each, path in {**wanted, loader: where}.items()}


def _read(root: Path, path: Path, known: Mapping[str, Path]) -> dict[str, Path]:
    """Return where the libraries of a file, and theirs in turn, lie below a root; not those already known."""
    found: dict[str, Path] = {}
    waiting = [path]
    while waiting:
        each = waiting.pop()
        wants = elf.wants(each.read_bytes())
        own = [folder.replace("$ORIGIN", str(each.parent)) for folder in wants.folders if "$ORIGIN" in folder]
        folders = [*map(Path, own), *root.glob("lib/*-linux-gnu"), *root.glob("usr/lib/*-linux-gnu")]
        for name in wants.names:
            if name in known or name in found or name.startswith("ld-linux-"):
                continue
            place = next((folder / name for folder in folders if (folder / name).exists()), None)
            if place is None:
                raise UserError(
                    f"{path} cannot be loaded: {name} is in no package",
                    hint="add the Debian package that has it to deploy/image/pythons.py",
                )
            found[name] = Path(os.path.normpath(place))
            waiting.append(found[name])
    return found


def _below(root: Path, path: str) -> Path:
    """Return where a path of the image lies; Debian's releases differ in whether /lib is /usr/lib."""
    places = (root / path.lstrip("/"), root / "usr" / path.lstrip("/"))
    return next((place for place in places if place.exists()), places[0])


def _needed(loader: str, path: Path) -> dict[str, Path]:
    """Return where the loader finds each library of a file, and of its libraries in turn."""
    asked = subprocess.run([loader, "--list", path], capture_output=True, check=False, text=True)  # noqa: S603  # ours
    missing = _MISSING.findall(asked.stdout)
    if missing or asked.returncode:
        reason = f"{', '.join(missing)} is not on this machine" if missing else asked.stderr.strip()
        raise UserError(f"{path} cannot be loaded: {reason}", hint="install what it needs, or repair it")
    # Where a library names another by its own place, there is a ".." on the way.
    return {hit["name"]: Path(os.path.normpath(hit["path"])) for hit in _FOUND.finditer(asked.stdout)}
