"""Moves that were not finished: after a crash, or because their old inode still waits for a late writer.

Of a move there is one entry, in a folder named after the file. Its name is the identity of what was copied,
with the inode of the plain file of the move: the promoted or the demoted one. From the entry and the path
follows how far the move came.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fairlead.tiering.volumes.copying import DroppedMove
from fairlead.tiering.volumes.lease import ReadLease
from fairlead.tiering.volumes.pair import FileIdentity, VolumePair, Where, lstat
from fairlead.tiering.volumes.rename import pinned, remove_empty, rename_new, switch

_MOST_COPIES: Final = 1000


def settle_incoming(pair: VolumePair, key: str, entry: str, opened: Callable[[str], None]) -> str | None:
    """Finish a promotion; return a line for people, or None while a program writes to the old file."""
    out, identity = lstat(entry), FileIdentity.parse(os.path.basename(entry))
    line: str | None = ""
    if out is not None and stat.S_ISLNK(out.st_mode):
        line = _watch_slow(
            pair, key, entry, identity, opened
        )  # switched: the slow file may have got a late writer
    elif out is not None and identity is not None and out.st_ino != identity.inode:
        line = _give_back(pair, key, entry, identity)
    if line is not None:
        _remove(entry, pair)
    return line


def settle_outgoing(pair: VolumePair, key: str, entry: str, opened: Callable[[str], None]) -> str | None:
    """Finish a demotion; return a line for people, or None while a program writes to the old file."""
    del opened
    out, identity = lstat(entry), FileIdentity.parse(os.path.basename(entry))
    line = ""
    if out is not None and not stat.S_ISLNK(out.st_mode):
        if identity is None or out.st_ino != identity.inode:
            line = _give_back(pair, key, entry, None)
        elif _is_written(entry):
            return None
        elif not identity.has_content_of(out):
            line = _take_back(pair, key, entry, identity, out)
        elif pair.where(key) is Where.SLOW and lstat(pair.slow_path(key)) is None:
            line = _take_back(pair, key, entry, None, out)
    _remove(entry, pair)
    return line


def entries(pair: VolumePair) -> list[tuple[str, str]]:
    """Return every move that is not finished: its key and its entry."""
    found = []
    for top in (f"{pair.state}/in", f"{pair.state}/out"):
        for folder, _, names in os.walk(top):
            found += [(os.path.relpath(folder, top), f"{folder}/{name}") for name in names]
    return found


def _watch_slow(
    pair: VolumePair, key: str, entry: str, identity: FileIdentity | None, opened: Callable[[str], None]
) -> str | None:
    """Look whether the slow file was written after the promotion had copied it."""
    slow = lstat(pair.slow_path(key))
    if slow is None or identity is None:
        return ""
    opened(pair.slow_path(key))
    if _is_written(pair.slow_path(key)):
        return None
    if identity.has_content_of(slow):
        return ""
    fast = lstat(pair.path(key))
    unchanged = fast is not None and fast.st_ino == identity.inode and identity.has_content_of(fast)
    if unchanged and _put(pair, key, entry, identity.inode):
        return f"{key}: written on the slow tier during its promotion; it stays there"
    if fast is None or not stat.S_ISREG(fast.st_mode):
        return ""
    kept = _free_name(pair, key)
    os.rename(pair.slow_path(key), pair.slow_path(kept))
    os.symlink(pair.slow_path(kept), pair.path(kept))
    return f"{key}: written on both tiers during its promotion; the slow tier's is kept as {kept}"


def _give_back(pair: VolumePair, key: str, entry: str, staged: FileIdentity | None) -> str:
    """Put the file of a program back that a switch has taken out and a crash has kept from going back."""
    now = lstat(pair.path(key))
    if staged is None:
        placed = pair.where(key) is Where.SLOW
    else:
        placed = now is not None and now.st_ino == staged.inode and staged.has_content_of(now)
    if placed and now is not None and _put(pair, key, entry, now.st_ino):
        return f"{key}: a program's newer file was put back"
    return _keep_copy(pair, key, entry)


def _take_back(
    pair: VolumePair, key: str, entry: str, identity: FileIdentity | None, out: os.stat_result
) -> str:
    """Put a demoted file back that a late writer has changed, or whose copy is gone."""
    now, slow = lstat(pair.path(key)), lstat(pair.slow_path(key))
    unchanged = slow is None or identity is None or identity.has_content_of(slow)
    linked = unchanged and now is not None and pair.where(key) is Where.SLOW
    if linked and now is not None and _put(pair, key, entry, now.st_ino):
        return f"{key}: written during its demotion; it stays on the fast tier"
    if now is not None and stat.S_ISREG(now.st_mode) and now.st_ino != out.st_ino and unchanged:
        return (
            ""  # a program has replaced the file since: what was written into the old one is replaced as well
        )
    return _keep_copy(pair, key, entry)


def _put(pair: VolumePair, key: str, entry: str, inode: int) -> bool:
    """Put an entry in the place of what is at the path now; False: that is another inode already."""
    try:
        with pinned(pair.path(key)) as there:
            return os.fstat(there).st_ino == inode and switch(entry, pair.path(key), there)
    except FileNotFoundError:
        return False


def _keep_copy(pair: VolumePair, key: str, entry: str) -> str:
    kept = _free_name(pair, key)
    os.makedirs(os.path.dirname(pair.path(kept)), exist_ok=True)
    rename_new(entry, pair.path(kept))
    return f"{key}: two versions after a crash; the other one is kept as {kept}"


def _free_name(pair: VolumePair, key: str) -> str:
    for number in range(1, _MOST_COPIES):
        kept = f"{key}.other-{number}"
        if lstat(pair.path(kept)) is None and lstat(pair.slow_path(kept)) is None:
            return kept
    raise DroppedMove(f"{key}: {_MOST_COPIES} other versions are kept already", "remove those not needed")


def _is_written(path: str) -> bool:
    """Return whether a program has a file open for writing."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        ReadLease(handle).release()
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def _remove(entry: str, pair: VolumePair) -> None:
    with suppress(FileNotFoundError):
        os.unlink(entry)
    remove_empty(os.path.dirname(entry), pair.state)
