"""Bring images from archives into the nodes of a lab: there is no registry to pull from."""

import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.node import files, inside
from fairlead.lab.run.state import Lab, NodeNamespaces

_SIGNS: Final = ("manifest.json", "index.json")
"""What lists the images of an archive, as `docker save` and as the OCI layout have it."""
_GZIP: Final = b"\x1f\x8b"
_IMPORTED: Final = re.compile(r"^unpacking (\S+) \(", re.MULTILINE)
_HOW: Final = "write one with: docker save -o IMAGE.tar NAME:TAG"


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """An image that every node of a lab has now."""

    image: str
    """Its full name, as pods must call it."""
    archive: Path
    nodes: tuple[str, ...]


def load(lab: Lab, archives: Iterable[Path], ctr: Path) -> list[LoadedImage]:
    """Import every image of every archive into every node; nothing is imported unless all can be read."""
    nodes = inside.nodes(lab)
    archives = tuple(archives)
    for archive in archives:
        check(archive)
    found = []
    for archive in archives:
        names = [_import(lab, space, archive, ctr) for space in nodes]
        found += [LoadedImage(name, archive, tuple(node.node for node in nodes)) for name in names[0]]
    return found


def check(archive: Path) -> None:
    """Raise when a file holds no images."""
    try:
        with tarfile.open(archive, "r:") as file:
            if any(member.name.removeprefix("./") in _SIGNS for member in file):
                return
    except OSError as error:
        raise LabError(f"{archive}: {error.strerror or error}") from error
    except tarfile.TarError:
        with archive.open("rb") as raw:
            packed = raw.read(2) == _GZIP
        hint = f"unpack it first: gunzip {archive}" if packed else _HOW
        raise LabError(f"{archive} is not an image archive: it is no tar file", hint=hint) from None
    raise LabError(f"{archive} is not an image archive: it has no {' and no '.join(_SIGNS)}", hint=_HOW)


def _import(lab: Lab, space: NodeNamespaces, archive: Path, ctr: Path) -> list[str]:
    """Import an archive into a node and return the names of its images."""
    snapshotter = files.snapshotter(lab.folder)
    argv = [str(ctr), "-a", lab.layout.socket, "-n", "k8s.io", "images", "import", "--local"]
    # Read here and handed over: a node does not see all files of the host.
    with archive.open("rb") as file:
        done = inside.run(space, [*argv, "--snapshotter", snapshotter, "-"], stdin=file)
    if done.returncode:
        raise LabError(f"{archive}: {space.node} does not take it: {done.stderr.strip()}", hint=_HOW)
    names = _IMPORTED.findall(done.stdout)
    if not names:
        raise LabError(f"{archive}: it has no image with a name", hint=_HOW)
    return names
