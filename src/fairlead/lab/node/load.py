"""Import images from archives into the nodes of a lab: there is no registry to pull from."""

import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.node import files, inside
from fairlead.lab.run.state import Lab, NodeNamespaces

_INDEX_FILES: Final = ("manifest.json", "index.json")
"""The file that lists an archive's images, in the format of `docker save` and in the OCI image layout."""
_GZIP: Final = b"\x1f\x8b"
_IMPORTED: Final = re.compile(r"^unpacking (\S+) \(", re.MULTILINE)
_HINT: Final = "write one with: docker save -o IMAGE.tar NAME:TAG"


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """An image that every node of a lab has imported."""

    image: str
    """Its full name, for a pod's `image` field."""
    archive: Path
    nodes: tuple[str, ...]


def load(lab: Lab, archives: Iterable[Path], ctr: Path) -> list[LoadedImage]:
    """Import every image of every archive into every node; if one archive is unreadable, import nothing."""
    nodes = inside.nodes(lab)
    archives = tuple(archives)
    for archive in archives:
        check(archive)
    loaded = []
    for archive in archives:
        names = [_import(lab, node_ns, archive, ctr) for node_ns in nodes]
        loaded += [LoadedImage(name, archive, tuple(node.node for node in nodes)) for name in names[0]]
    return loaded


def check(archive: Path) -> None:
    """Raise if a file is not an image archive."""
    try:
        with tarfile.open(archive, "r:") as file:
            if any(member.name.removeprefix("./") in _INDEX_FILES for member in file):
                return
    except OSError as error:
        raise LabError(f"{archive}: {error.strerror or error}") from error
    except tarfile.TarError:
        with archive.open("rb") as raw:
            compressed = raw.read(2) == _GZIP
        hint = f"unpack it first: gunzip {archive}" if compressed else _HINT
        raise LabError(f"{archive} is not an image archive: it is not a tar file", hint=hint) from None
    raise LabError(
        f"{archive} is not an image archive: it has no {' and no '.join(_INDEX_FILES)}", hint=_HINT
    )


def _import(lab: Lab, node_ns: NodeNamespaces, archive: Path, ctr: Path) -> list[str]:
    """Import an archive into a node and return the names of its images."""
    snapshotter = files.snapshotter(lab.folder)
    argv = [str(ctr), "-a", lab.layout.socket, "-n", "k8s.io", "images", "import", "--local"]
    # The archive comes through stdin: a node does not see all files of the host.
    with archive.open("rb") as file:
        done = inside.run(node_ns, [*argv, "--snapshotter", snapshotter, "-"], stdin=file)
    if done.returncode:
        raise LabError(f"{archive}: the import into {node_ns.node} failed: {done.stderr.strip()}", hint=_HINT)
    names = _IMPORTED.findall(done.stdout)
    if not names:
        raise LabError(f"{archive}: it has no named image", hint=_HINT)
    return names
