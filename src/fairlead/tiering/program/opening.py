"""The checks before two folders become a tier: they belong together, can do what moves need, and are free."""

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from fairlead.errors import SettingsError
from fairlead.outfile import atomic_write
from fairlead.tiering.program.scan import link_all, state_folders
from fairlead.tiering.volumes.filesystem import network_file_system
from fairlead.tiering.volumes.lease import ReadLease, lease_refusal
from fairlead.tiering.volumes.pair import STATE, VolumePair
from fairlead.tiering.volumes.rename import exchange

_ID: Final = "volume-id"


@contextmanager
def opened_pair(fast: str, slow: str) -> Iterator[tuple[VolumePair, list[str]]]:
    """Yield the pair of two folders, and lines for people; no other program moves its files meanwhile."""
    for name, folder in (("--fast", fast), ("--slow", slow)):
        if not os.path.isdir(folder):
            raise SettingsError(f"{name} {folder}: no such folder", "make it, or mount the volume there")
        check_local(name, folder)
    pair = VolumePair.of(fast, slow)
    if _is_inside(pair.fast, pair.slow) or _is_inside(pair.slow, pair.fast):
        raise SettingsError(f"{fast} and {slow}: one is inside the other", "name two separate folders")
    try:
        folders = state_folders(pair)
    except OSError as error:
        raise SettingsError(
            f"{error.filename}: {error.strerror}", "the mover writes to both volumes"
        ) from None
    with _locked(f"{pair.state}/lock", fast):
        for folder in folders:
            _check_leases(folder)
        _check_exchange(pair.state)
        yield pair, _check_ids(pair, *folders)


def check_local(name: str, folder: str, mounts: str | None = None) -> None:
    """Raise SettingsError for a folder that programs of other machines use, unseen from here."""
    network = network_file_system(folder, mounts)
    if network is not None:
        raise SettingsError(
            f"{name} {folder}: it is on {network}, which other machines write to: their renames and open "
            "files would not be noticed during a move",
            "use a volume with a local file system, such as ext4, XFS or Btrfs",
        )


def is_whole(pair: VolumePair) -> bool:
    """Return whether both volumes are there: an unmounted one looks empty."""
    one, other = (_read(f"{folder}/{STATE}/{_ID}") for folder in (pair.fast, pair.slow))
    return bool(one) and one == other


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@contextmanager
def _locked(path: str, fast: str) -> Iterator[None]:
    with open(path, "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"{fast}: another fairlead serve tier moves its files", "stop it, or name another folder"
            ) from None
        yield


def _check_leases(folder: str) -> None:
    path = f"{folder}/probe"
    handle = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        ReadLease(handle).release()
    except OSError as error:
        raise SettingsError(
            f"{folder}: {lease_refusal(error)}: a writer could not be noticed during a move",
            "use a local file system, such as ext4, XFS or Btrfs",
        ) from None
    finally:
        os.close(handle)
        os.unlink(path)


def _check_exchange(folder: str) -> None:
    names = [f"{folder}/probe-{number}" for number in (1, 2)]
    for name in names:
        with open(name, "w", encoding="utf-8"):
            pass
    try:
        exchange(*names)
    except OSError as error:
        raise SettingsError(
            f"{folder}: its file system cannot exchange two names at once: {error.strerror}",
            "use a local file system, such as ext4, XFS or Btrfs",
        ) from None
    finally:
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name)


def _check_ids(pair: VolumePair, fast: str, slow: str) -> list[str]:
    one, other = _read(f"{fast}/{_ID}"), _read(f"{slow}/{_ID}")
    if one and one == other:
        return []
    if one:
        raise SettingsError(
            f"{pair.slow}: not the slow volume of {pair.fast}", "name the volume to which its links lead"
        )
    made = link_all(pair)
    text = other or uuid.uuid4().hex
    for folder in (slow, fast):
        with atomic_write(f"{folder}/{_ID}", text=True) as file:
            file.write(text)
    return [f"links made for {made} files of {pair.slow}"] if made else []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
