"""KeeperFiles: the folder of one keeper, with its lock, its status and its daemon's sockets."""

import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import LedgerError, NewerFormatError
from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.job import ProcessRef
from fairlead.limiter.mps import MpsFolder
from fairlead.local.background.lock import ProcessLock
from fairlead.local.mps.device import MpsDevice

FOLDER: Final = "mps"
"""In the private folder of a user; each keeper has a folder in it."""
LOG: Final = "mps.log"
_LOCK: Final = "keeper.lock"
_STATUS: Final = "status.json"
_MODE: Final = 0o700
_ATTEMPTS: Final = 16
_SIZE_LIMIT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class KeeperStatus:
    """What a keeper says of its daemon."""

    device: MpsDevice
    daemon: ProcessRef | None = None
    """Seen alive; None: it does not run yet, or no job may start under it any more."""
    fault: str = ""
    """Why it does not start; empty: it does."""


def _encode(status: KeeperStatus) -> Mapping[str, Any]:
    device, daemon = status.device, status.daemon
    process = None if daemon is None else [daemon.pid, daemon.start, daemon.boot]
    return {"device": [device.id, device.uuid, device.program], "daemon": process, "fault": status.fault}


def _decode(body: Any) -> KeeperStatus:
    identity, uuid, program = map(str, body["device"])
    daemon = body["daemon"]
    process = None if daemon is None else ProcessRef(int(daemon[0]), int(daemon[1]), str(daemon[2]))
    return KeeperStatus(MpsDevice(identity, uuid, program), process, str(body["fault"]))


STATUS: Final = VersionedFormat("mps-keeper", JSON, {1: Codec(_encode, _decode)})


def keepers(private: str) -> list[str]:
    """Return the keys of all keepers of a user that have left or use a folder."""
    try:
        return sorted(os.listdir(os.path.join(private, FOLDER)))
    except OSError:
        return []


class KeeperFiles:
    """The files of the keeper of one device; in the private folder of its user."""

    def __init__(self, private: str, key: str) -> None:
        self._path = os.path.join(private, FOLDER, key)
        self.key = key
        self.log = os.path.join(private, LOG)
        """Of all keepers of the user; it stays."""

    @classmethod
    def of(cls, private: str, device: MpsDevice) -> "KeeperFiles":
        """Return the files of the keeper of a device."""
        return cls(private, _digest(device.uuid))

    @property
    def daemon_folder(self) -> MpsFolder:
        """The daemon's folder: beside the status, or in /tmp where that path is too long for a socket."""
        folder = MpsFolder(self._path)
        if folder.is_short:
            return folder
        return MpsFolder(f"/tmp/fairlead-mps-{os.geteuid()}-{_digest(self._path)}")  # noqa: S108  # checked

    def take_lock(self) -> ProcessLock | None:
        """Return the keeper's lock, with its folder made; None: a keeper holds it."""
        for _ in range(_ATTEMPTS):
            with suppress(
                FileNotFoundError, FileExistsError
            ):  # a keeper that ends removes the folder meanwhile
                os.makedirs(self._path, _MODE, exist_ok=True)
                return ProcessLock.take(os.path.join(self._path, _LOCK))
        return None

    def inherited_lock(self, handle: int) -> ProcessLock | None:
        """Return the lock that the starter of this process took."""
        return ProcessLock.inherited(os.path.join(self._path, _LOCK), handle)

    def read(self) -> KeeperStatus | None:
        """Return what the keeper says; None: nothing that this program can read."""
        try:
            handle = os.open(self._status, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb") as file:
                return STATUS.decode(file.read(_SIZE_LIMIT).decode("utf-8"))
        except (OSError, ValueError, NewerFormatError):
            return None

    def write(self, status: KeeperStatus) -> None:
        """Replace what the keeper says; the holder of its lock calls it."""
        part = f"{self._status}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(part, flags, 0o600), "wb", buffering=0) as file:
            file.write(STATUS.encode(status).encode())
        os.replace(part, self._status)

    def make_daemon_folder(self) -> None:
        """Make the daemon's folder; a LedgerError says that another user could reach into it."""
        path = self.daemon_folder.path
        with suppress(FileExistsError):
            os.mkdir(path, _MODE)
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise LedgerError(
                f"{path}: it belongs to another user, or others can open it", "ask root to remove it"
            )

    def remove_daemon_folder(self) -> None:
        """Remove the sockets and logs of a daemon that has ended."""
        folder = self.daemon_folder
        if folder.path != self._path:
            shutil.rmtree(folder.path, ignore_errors=True)
            return
        for path in (folder.pipe, folder.log):
            shutil.rmtree(path, ignore_errors=True)

    def remove(self, lock: ProcessLock) -> None:
        """Remove everything but the log, the lock last; the holder of the lock calls it."""
        self.remove_daemon_folder()
        for path in (self._status, f"{self._status}.part"):
            with suppress(OSError):
                os.unlink(path)
        lock.remove()
        with suppress(OSError):  # another keeper has a folder there
            os.rmdir(self._path)
            os.rmdir(os.path.dirname(self._path))

    @property
    def _status(self) -> str:
        return os.path.join(self._path, _STATUS)


def _digest(text: str) -> str:
    return hashlib.blake2s(os.fsencode(text), digest_size=4).hexdigest()
