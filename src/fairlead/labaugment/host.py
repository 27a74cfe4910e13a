"""The Python of this machine for pods: the folders that it needs, which they mount at the same paths.

So a pod runs the very program that runs bare, over an image that has nothing: what differs is the pod.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_SYSTEM: Final = ("/usr", "/lib", "/lib32", "/lib64", "/libx32")
"""With the dynamic loader and the libraries of the system."""
_LOADER_CACHE: Final = "/etc/ld.so.cache"
"""By it the loader finds libraries in folders that it does not know."""
_PACKAGES: Final = ("cheroot", "cryptography", "fairlead", "numpy", "onnxruntime", "wsgidav")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class HostPython:
    """A Python of this machine, as pods have it."""

    program: str
    places: tuple[str, ...]
    """Folders and files that are mounted, read-only, where they are here."""
    environ: Mapping[str, str] = field(default_factory=dict)


def this_python() -> HostPython:
    """Return the Python that runs this."""
    wanted = [*_SYSTEM, sys.prefix, sys.base_prefix, sys.exec_prefix, *_package_folders()]
    wanted += mapped_folders(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))
    wanted.append(os.path.dirname(os.path.dirname(os.path.realpath(sys.executable))))
    places = outermost(path for path in wanted if os.path.isdir(path))
    cache = [_LOADER_CACHE] if os.path.isfile(_LOADER_CACHE) else []
    environ = {
        "PATH": _PATH,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return HostPython(sys.executable, (*places, *cache), environ)


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return paths without those below others of them. Pure."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(each) for each in paths} - {"/"}):
        if not any(path.startswith(f"{other}/") for other in kept):
            kept.append(path)
    return tuple(kept)


def mapped_folders(maps: str) -> list[str]:
    """Return the folders of the libraries that a process has loaded, by its /proc/PID/maps. Pure."""
    fields = (line.split(maxsplit=5) for line in maps.splitlines())
    files = {words[5] for words in fields if len(words) == 6 and words[5].startswith("/")}
    return sorted({os.path.dirname(path) for path in files if ".so" in os.path.basename(path)})


def _package_folders() -> list[str]:
    """Return where the packages are that a worker and a store import."""
    specs = [spec for spec in map(find_spec, _PACKAGES) if spec is not None]
    return [os.path.dirname(each) for spec in specs for each in spec.submodule_search_locations or ()]
