"""A look at all files of both volumes: where each is, links that were renamed, and files without a link."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from fairlead.tiering.volumes.copying import copy_folders
from fairlead.tiering.volumes.pair import OWN, STATE, VolumePair, Where, lstat
from fairlead.tiering.volumes.rename import pinned, remove_empty, switch, sync_folder


@dataclass(slots=True)
class TierFiles:
    """What is on the volumes."""

    fast: dict[str, int] = field(default_factory=dict)
    slow: dict[str, int] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    """Links that lead to the slow file of another key, which has no link of its own any more."""
    broken: list[str] = field(default_factory=list)
    """Links whose slow file is gone."""
    orphans: list[str] = field(default_factory=list)
    """Slow files to which no link leads, and without a file of their key: a program has deleted it."""


def look(pair: VolumePair) -> TierFiles:
    """Return what is on the volumes now."""
    found = TierFiles()
    linked = set[str]()
    for key, status in _files(pair.fast):
        if stat.S_ISREG(status.st_mode):
            found.fast[key] = status.st_size
            continue
        target = _target(pair, key) if stat.S_ISLNK(status.st_mode) else None
        if target is None:
            continue
        linked.add(target)
        slow = lstat(pair.slow_path(target))
        if slow is None:
            found.broken.append(key)
        elif target == key:
            found.slow[key] = slow.st_size
        elif pair.where(target) is not Where.SLOW:
            found.renamed[key] = target
    for key, status in _files(pair.slow):
        if stat.S_ISREG(status.st_mode) and key not in linked and key not in found.fast:
            found.orphans.append(key)
    return found


def _target(pair: VolumePair, key: str) -> str | None:
    try:
        return pair.key_of_target(os.readlink(pair.path(key)))
    except OSError:
        return None


def _files(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every name below a folder that is no folder, but for those of the mover and the store."""
    for folder, folders, names in os.walk(top):
        if folder == top and OWN in folders:
            folders.remove(OWN)
        links = [name for name in folders if os.path.islink(f"{folder}/{name}")]
        for name in (*names, *links):
            status = lstat(f"{folder}/{name}")
            if status is not None:
                yield os.path.relpath(f"{folder}/{name}", top), status


def follow_rename(pair: VolumePair, key: str, target: str) -> bool:
    """Give a renamed link a slow file of its own key; at every moment the link leads to the file."""
    slow, old = pair.slow_path(key), pair.slow_path(target)
    entry = f"{pair.state}/link"
    staged = f"{pair.staging}/renamed"
    for folder in (pair.staging, pair.state):
        os.makedirs(folder, 0o700, exist_ok=True)
    for path in (entry, staged):
        if lstat(path) is not None:
            os.unlink(path)
    copy_folders(pair.fast, pair.slow, os.path.dirname(key))
    there = lstat(slow)
    if there is None or not os.path.samestat(there, os.lstat(old)):
        os.link(old, staged, follow_symlinks=False)
        os.rename(staged, slow)
        sync_folder(os.path.dirname(slow))
    os.symlink(slow, entry)
    with pinned(pair.path(key)) as link:
        is_ours = os.readlink(pair.path(key)) == old
        done = is_ours and switch(entry, pair.path(key), link)
    os.unlink(entry)
    if done and pair.where(target) is not Where.SLOW:
        sync_folder(os.path.dirname(pair.path(key)))
        os.unlink(old)
        remove_empty(os.path.dirname(old), pair.slow)
    return done


def remove_orphan(pair: VolumePair, key: str) -> bool:
    """Remove the slow file of a name that a program has deleted."""
    if lstat(pair.path(key)) is not None:
        return False
    os.unlink(pair.slow_path(key))
    remove_empty(os.path.dirname(pair.slow_path(key)), pair.slow)
    return True


def link_all(pair: VolumePair) -> int:
    """Make the links of slow files that have none: the slow volume had files, or the fast one is new."""
    made = 0
    for key, status in list(_files(pair.slow)):
        if stat.S_ISREG(status.st_mode) and lstat(pair.path(key)) is None:
            copy_folders(pair.slow, pair.fast, os.path.dirname(key))
            os.symlink(pair.slow_path(key), pair.path(key))
            made += 1
    return made


def state_folders(pair: VolumePair) -> tuple[str, str]:
    """Return the mover's own folders on both volumes, which are made if they are not there."""
    folders = (pair.state, f"{pair.slow}/{STATE}")
    for folder in folders:
        os.makedirs(folder, 0o700, exist_ok=True)
    return folders
