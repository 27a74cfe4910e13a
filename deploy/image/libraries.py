"""The shared libraries that programs need, as the loader finds them.

For programs of this machine, the loader lists them. Programs of another architecture are parsed: their loader
cannot run here, and it searches only two folders, below the root of their unpacked packages.
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
_DLOPENED: Final = (
    "libgcc_s.so.1",  # by glibc, when a thread exits; without it glibc aborts the program
    *("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"),  # host names, before glibc 2.34
    *("libpthread.so.0", "libdl.so.2", "librt.so.1"),  # NVIDIA's library needs them, also after 2.34
)
"""Libraries that are loaded at run time and that no program names; those that exist are added."""


def closure(program: Path, modules: Iterable[Path], root: Path | None = None) -> dict[str, Path]:
    """Return every library that a program and the modules it loads need, by its path in the image.

    All go into the folder of the C library: the loader searches it by default, so neither ld.so.cache nor a
    variable is needed. A `root` holds the libraries of another architecture.
    """
    loader = elf.loader(program.read_bytes())
    if not loader:
        raise UserError(f"{program} is statically linked", hint="run this with a dynamically linked Python")
    binaries = {program, *modules}
    libraries: dict[str, Path] = {}
    for binary in binaries:
        libraries |= _list_by_loader(loader, binary) if root is None else _parse(root, binary, libraries)
    folder = next(path.parent for name, path in libraries.items() if name.startswith("libc."))
    libraries |= {name: folder / name for name in _DLOPENED if (folder / name).exists()}
    target = folder if root is None else "/" / folder.relative_to(root)
    files = {f"{target}/{name}": path for name, path in libraries.items() if path not in binaries}
    source = Path(loader) if root is None else _below(root, loader)
    return {name.removeprefix("/"): path for name, path in {**files, loader: source}.items()}


def _parse(root: Path, path: Path, known: Mapping[str, Path]) -> dict[str, Path]:
    """Return the paths below a root of a file's libraries, and of theirs; without the known ones."""
    libraries: dict[str, Path] = {}
    pending = [path]
    while pending:
        binary = pending.pop()
        needed = elf.needed_libraries(binary.read_bytes())
        origin = str(binary.parent)
        own = [folder.replace("$ORIGIN", origin) for folder in needed.folders if "$ORIGIN" in folder]
        folders = [*map(Path, own), *root.glob("lib/*-linux-gnu"), *root.glob("usr/lib/*-linux-gnu")]
        for name in needed.names:
            if name in known or name in libraries or name.startswith("ld-linux-"):
                continue
            library = next((folder / name for folder in folders if (folder / name).exists()), None)
            if library is None:
                raise UserError(
                    f"{path} cannot be loaded: {name} is in no package",
                    hint="add the Debian package that has it to deploy/image/pythons.py",
                )
            libraries[name] = Path(os.path.normpath(library))
            pending.append(libraries[name])
    return libraries


def _below(root: Path, path: str) -> Path:
    """Return a path of the image below a root; Debian's releases differ in whether /lib is /usr/lib."""
    places = (root / path.lstrip("/"), root / "usr" / path.lstrip("/"))
    return next((place for place in places if place.exists()), places[0])


def _list_by_loader(loader: str, path: Path) -> dict[str, Path]:
    """Return the path that the loader resolves for each library of a file, and of its libraries."""
    done = subprocess.run([loader, "--list", path], capture_output=True, check=False, text=True)  # noqa: S603  # ours
    missing = _MISSING.findall(done.stdout)
    if missing or done.returncode:
        reason = f"{', '.join(missing)} is not on this machine" if missing else done.stderr.strip()
        raise UserError(f"{path} cannot be loaded: {reason}", hint="install what it needs, or repair it")
    # A path relative to $ORIGIN has a ".." in it.
    return {match["name"]: Path(os.path.normpath(match["path"])) for match in _FOUND.finditer(done.stdout)}
