"""Where built things lie, who may write there, and how much room is left.

One folder serves every clone of one user:

    ~/.cache/fairlead/lab/
      kube-0123456789ab/     a finished part: bin/, files/, build.log and, written last, built.json
      kube-0123456789ab.log  the log of a build that runs, or that failed
      .kube-0123456789ab.*/  a build that runs, or that died: made aside, renamed when whole
      go/                    Go's caches (build/, mod/): only a saving of time, may be dropped
      go-1.26.6/             a Go from PyPI, where PATH has none
      locks/                 one file a thing, locked while it is made
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
    """The folder of everything that the lab builds and fetches."""

    root: Path

    @property
    def go(self) -> Path:
        """Go's own caches."""
        return self.root / "go"

    def folder(self, key: str) -> Path:
        """Return where a finished thing lies."""
        return self.root / key

    def log(self, key: str) -> Path:
        """Return the log of a build that has not finished."""
        return self.root / f"{key}.log"


def default(environ: Mapping[str, str]) -> BuildCache:
    """Return this user's cache, where the XDG rules put it."""
    base = environ.get("XDG_CACHE_HOME", "")
    # The rules say that a relative path is to be ignored.
    folder = Path(base) if os.path.isabs(base) else Path(environ.get("HOME") or Path.home()) / ".cache"
    return BuildCache(folder / "fairlead" / "lab")


def is_complete(folder: Path) -> bool:
    """Return whether a folder holds everything that was in it when it was finished."""
    try:
        sizes = json.loads((folder / _DONE).read_text(encoding="utf-8"))["sizes"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def read_metadata(folder: Path) -> dict[str, object]:
    """Return what was written down when a folder was finished."""
    said: dict[str, object] = json.loads((folder / _DONE).read_text(encoding="utf-8"))
    return said


@contextmanager
def staging_folder(cache: BuildCache, key: str, facts: dict[str, object]) -> Iterator[Path]:
    """Give an empty folder to fill; when the block ends well, it becomes the finished folder at once.

    To be called by the holder of the key's lock: what an earlier, dead holder left aside is removed.
    `facts` are written down beside the sizes; the block may still add to them.
    """
    for dead in cache.root.glob(f".{key}.*"):
        _remove(dead)
    aside = Path(tempfile.mkdtemp(prefix=f".{key}.", dir=cache.root))
    try:
        yield aside
        aside.chmod(0o755)
        names = (path for path in sorted(aside.rglob("*")) if path.is_file())
        facts["sizes"] = {str(path.relative_to(aside)): path.stat().st_size for path in names}
        (aside / _DONE).write_text(json.dumps(facts, indent=1), encoding="utf-8")
        _remove(cache.folder(key))  # one that is_done() did not believe
        aside.rename(cache.folder(key))
    finally:
        _remove(aside)


@contextmanager
def hold_lock(cache: BuildCache, name: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of one thing; while another process holds it, call `waiting` now and then.

    The kernel lets go of the lock when its holder dies, however it dies.
    """
    with _lock_file(cache, name) as file:
        while not _take(file, fcntl.LOCK_EX):
            waiting()
            time.sleep(0.2)
        yield


@contextmanager
def hold_go_caches(cache: BuildCache) -> Iterator[None]:
    """Keep others from dropping Go's caches meanwhile."""
    with _lock_file(cache, "go-caches") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        cache.go.mkdir(exist_ok=True)
        yield


def drop_go_caches(cache: BuildCache) -> bool:
    """Remove Go's caches, unless someone builds with them; return whether they are gone."""
    with _lock_file(cache, "go-caches") as file:
        if not _take(file, fcntl.LOCK_EX):
            return False
        _remove(cache.go)
        return True


def free_space(cache: BuildCache) -> Bytes:
    """Return how much may still be written into the cache."""
    cache.root.mkdir(parents=True, exist_ok=True)
    return Bytes(shutil.disk_usage(cache.root).free)


def require_space(cache: BuildCache, need: Bytes) -> None:
    """Raise when there is too little room; Go's caches from earlier builds go first."""
    if free_space(cache) < need:
        drop_go_caches(cache)
    left = free_space(cache)
    if left < need:
        raise LabError(
            f"building the lab needs {format_bytes(need)} of disk, {cache.root} has {format_bytes(left)}",
            hint="make room there, or set XDG_CACHE_HOME to a folder on a larger disk",
        )


@contextmanager
def _lock_file(cache: BuildCache, name: str) -> Iterator[IO[bytes]]:
    """Open a lock's file. It is never removed: another process may be waiting on the very same one."""
    locks = cache.root / "locks"
    try:
        locks.mkdir(parents=True, exist_ok=True)
        file = (locks / name).open("ab")
    except OSError as error:
        raise LabError(
            f"{locks}: {error.strerror}", hint="set XDG_CACHE_HOME to a folder that you may write"
        ) from error
    with file:
        yield file


def _take(file: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
