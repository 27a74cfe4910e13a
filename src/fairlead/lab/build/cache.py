"""The build cache: its folders, their locks, and the free disk space.

One folder serves every clone of one user:

    ~/.cache/fairlead/lab/
      kube-0123456789ab/     a finished part: bin/, files/, build.log and, written last, built.json
      kube-0123456789ab.log  the log of a build that runs, or that failed
      .kube-0123456789ab.*/  the staging folder of a build that runs or that died; renamed when complete
      go/                    Go's caches (build/, mod/): they only save time and may be dropped
      go-1.26.6/             a Go from PyPI, where PATH has none
      locks/                 one file per key, locked while its folder is built
"""

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from fairlead.errors import LabError
from fairlead.units import Bytes, format_bytes

_DONE: Final = "built.json"


@dataclass(frozen=True, slots=True)
class BuildCache:
    """The folder that holds everything the lab builds and fetches."""

    root: Path

    @property
    def go(self) -> Path:
        """Go's own caches."""
        return self.root / "go"

    def folder(self, key: str) -> Path:
        """Return the finished folder of a key."""
        return self.root / key

    def log(self, key: str) -> Path:
        """Return the log of a build that has not finished."""
        return self.root / f"{key}.log"


def default(environ: Mapping[str, str]) -> BuildCache:
    """Return this user's cache, at the place that the XDG Base Directory specification names."""
    base = environ.get("XDG_CACHE_HOME", "")
    # The specification says to ignore a relative path.
    folder = Path(base) if os.path.isabs(base) else Path(environ.get("HOME") or Path.home()) / ".cache"
    return BuildCache(folder / "fairlead" / "lab")


def is_complete(folder: Path) -> bool:
    """Return whether a folder still holds every file that it had when its build finished."""
    try:
        sizes = json.loads((folder / _DONE).read_text(encoding="utf-8"))["sizes"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def read_metadata(folder: Path) -> dict[str, object]:
    """Return the metadata that a finished build recorded in its folder."""
    metadata: dict[str, object] = json.loads((folder / _DONE).read_text(encoding="utf-8"))
    return metadata


@contextmanager
def staging_folder(cache: BuildCache, key: str, metadata: dict[str, object]) -> Iterator[Path]:
    """Yield an empty folder to fill; if the block succeeds, an atomic rename makes it the finished folder.

    The caller holds the key's lock, so the staging folders of an earlier holder that died are removed.
    `metadata` is recorded beside the file sizes; the block may still add to it.
    """
    for dead in cache.root.glob(f".{key}.*"):
        _remove(dead)
    staging = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=cache.root))
    try:
        yield staging
        staging.chmod(0o755)
        names = (path for path in sorted(staging.rglob("*")) if path.is_file())
        metadata["sizes"] = {str(path.relative_to(staging)): path.stat().st_size for path in names}
        (staging / _DONE).write_text(json.dumps(metadata, indent=1), encoding="utf-8")
        _remove(cache.folder(key))  # an incomplete one
        staging.rename(cache.folder(key))
    finally:
        _remove(staging)


@contextmanager
def hold_lock(cache: BuildCache, name: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of one key; while another process holds it, call `waiting` five times a second.

    The kernel releases the lock when its holder dies, however it dies.
    """
    with _lock_file(cache, name) as file:
        while not _try_lock(file, fcntl.LOCK_EX):
            waiting()
            time.sleep(0.2)
        yield


@contextmanager
def hold_go_caches(cache: BuildCache) -> Iterator[None]:
    """Keep other processes from dropping Go's caches inside the block."""
    with _lock_file(cache, "go-caches") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        cache.go.mkdir(exist_ok=True)
        yield


def drop_go_caches(cache: BuildCache) -> bool:
    """Remove Go's caches, unless a build uses them; return whether they are gone."""
    with _lock_file(cache, "go-caches") as file:
        if not _try_lock(file, fcntl.LOCK_EX):
            return False
        _remove(cache.go)
        return True


def free_space(cache: BuildCache) -> Bytes:
    """Return the free space of the cache's disk."""
    cache.root.mkdir(parents=True, exist_ok=True)
    return Bytes(shutil.disk_usage(cache.root).free)


def require_space(cache: BuildCache, need: Bytes) -> None:
    """Raise when the disk has less than `need` free; Go's caches of earlier builds are dropped first."""
    if free_space(cache) < need:
        drop_go_caches(cache)
    left = free_space(cache)
    if left < need:
        raise LabError(
            f"building the lab needs {format_bytes(need)} of disk, {cache.root} has {format_bytes(left)}",
            hint="free some space there, or set XDG_CACHE_HOME to a folder on a larger disk",
        )


@contextmanager
def _lock_file(cache: BuildCache, name: str) -> Iterator[IO[bytes]]:
    """Open a lock's file. It is never removed: another process may be waiting on the same inode."""
    locks = cache.root / "locks"
    try:
        locks.mkdir(parents=True, exist_ok=True)
        file = (locks / name).open("ab")
    except OSError as error:
        raise LabError(
            f"{locks}: {error.strerror}", hint="set XDG_CACHE_HOME to a folder that you can write to"
        ) from error
    with file:
        yield file


def _try_lock(file: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
