"""Which file system a folder is on, by its name: one that other machines write to cannot be a tier."""

import os
import re
from typing import Final

_NETWORK: Final = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
     "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "virtiofs")
)  # fmt: skip
_NETWORK_FUSE: Final = (
    "ceph",
    "gcsfuse",
    "gluster",
    "goofys",
    "juicefs",
    "rclone",
    "s3fs",
    "seaweedfs",
    "sshfs",
)
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def network_file_system(folder: str, mounts: str | None = None) -> str | None:
    """Return the name of the network file system that a folder is on; None where it is a local one.

    `mounts` is the text of /proc/self/mountinfo.
    """
    name = _file_system(os.path.realpath(folder), _read_mounts() if mounts is None else mounts)
    kind, _, program = name.partition(".")
    if kind == "fuse":
        return name if any(word in program for word in _NETWORK_FUSE) else None
    return name if kind in _NETWORK else None


def _file_system(path: str, mounts: str) -> str:
    """Return the type of the mount that is nearest above a path; empty where none is known."""
    found, longest = "", -1
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        words, kinds = before.split(" "), after.split(" ")
        if len(words) < 5:
            continue
        place = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), words[4])
        if len(place) >= longest and (path == place or path.startswith(place.rstrip("/") + "/")):
            found, longest = kinds[0], len(place)
    return found


def _read_mounts() -> str:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
