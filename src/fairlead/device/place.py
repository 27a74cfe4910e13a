"""DevicePlace: the folder of a joined device, which its user alone can read, and the files in it."""

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from fairlead.device.files import write_private
from fairlead.device.membership import DEVICE_NAME, MEMBERSHIP, Membership
from fairlead.errors import DeviceError
from fairlead.userstate import names_with, state_folder

_PRIVATE: Final = 0o700
_MEMBERSHIP: Final = "membership.json"


def devices_folder(environ: Mapping[str, str]) -> str:
    """Return the folder that holds one folder for each joined device."""
    return state_folder(environ, "devices")


def device_names(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the devices that are joined here."""
    return names_with(devices_folder(environ), _MEMBERSHIP)


@dataclass(frozen=True, slots=True)
class DevicePlace:
    """The folder of one device."""

    name: str
    folder: str

    @classmethod
    def of(cls, environ: Mapping[str, str], name: str) -> "DevicePlace":
        """Return the place of a device of this name, joined or not."""
        if not DEVICE_NAME.fullmatch(name):
            raise DeviceError(
                f"{name[:80]!r} is not a name of a device", "use lower-case letters, digits and hyphens"
            )
        return cls(name, os.path.join(devices_folder(environ), name))

    @classmethod
    def joined(cls, environ: Mapping[str, str], name: str | None) -> "DevicePlace":
        """Return the place of a joined device; without a name, of the only one."""
        names = device_names(environ)
        if name is None and len(names) > 1:
            raise DeviceError("several devices are joined here", f"add --name with one of {', '.join(names)}")
        if name is None and not names:
            raise DeviceError("no device is joined here", "`fairlead device join --help` says how to join")
        chosen = names[0] if name is None else name
        if chosen not in names:
            known = f"joined here: {', '.join(names)}" if names else "`fairlead device join` joins a session"
            raise DeviceError(f"no device {chosen[:80]!r} is joined here", known)
        place = cls.of(environ, chosen)
        place.check()
        return place

    @property
    def database(self) -> str:
        """The queue of uploads, and what is known of the files in the store."""
        return os.path.join(self.folder, "queue.sqlite")

    @property
    def spool(self) -> str:
        """The contents of queued uploads."""
        return os.path.join(self.folder, "spool")

    @property
    def report(self) -> str:
        """The last report about this machine."""
        return os.path.join(self.folder, "report.json")

    @property
    def contact(self) -> str:
        """When the store was last reached, and what failed since."""
        return os.path.join(self.folder, "contact.json")

    @property
    def wakeup(self) -> str:
        """A pipe that wakes the program that sends."""
        return os.path.join(self.folder, "wakeup")

    @property
    def pending(self) -> str:
        """The secret of a join whose answer has not come yet."""
        return os.path.join(self.folder, "join.pending")

    def make(self) -> None:
        """Make the folders, which the user alone can read."""
        os.makedirs(os.path.dirname(self.folder), mode=_PRIVATE, exist_ok=True)
        for folder in (self.folder, self.spool):
            with suppress(FileExistsError):
                os.mkdir(folder, _PRIVATE)
        self.check()

    def check(self) -> None:
        """Raise DeviceError if others could read or replace the credential."""
        status = os.lstat(self.folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise DeviceError(f"{self.folder}: it is not a folder of this user", "join as its owner")
        if stat.S_IMODE(status.st_mode) & 0o077:
            os.chmod(self.folder, _PRIVATE)

    def read_membership(self) -> Membership:
        """Return the session that this device has joined."""
        path = os.path.join(self.folder, _MEMBERSHIP)
        try:
            with open(path, encoding="utf-8") as file:
                return MEMBERSHIP.decode(file.read())
        except FileNotFoundError:
            raise DeviceError(
                f"no device {self.name!r} is joined here", "`fairlead device join` joins a session"
            ) from None
        except (OSError, ValueError) as error:
            raise DeviceError(
                f"{path}: it cannot be read: {error}", "join again with a new invite: the queue is kept"
            ) from None

    def write_membership(self, membership: Membership) -> None:
        """Record the session; it survives a power cut once this returns."""
        write_private(os.path.join(self.folder, _MEMBERSHIP), MEMBERSHIP.encode(membership).encode())

    def is_joined(self) -> bool:
        """Return whether a session is recorded."""
        return os.path.isfile(os.path.join(self.folder, _MEMBERSHIP))

    @contextmanager
    def sender_lock(self) -> Iterator[bool]:
        """Hold the lock of the one process that sends; False: another process has it."""
        with locked(os.path.join(self.folder, "sender.lock"), exclusive=True) as held:
            yield held


@contextmanager
def locked(path: str, *, exclusive: bool, wait: bool = False) -> Iterator[bool]:
    """Hold a lock on a file; False: another process holds it, and this one does not wait."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
            held = True
        except BlockingIOError:
            held = False
        yield held
    finally:
        os.close(handle)
