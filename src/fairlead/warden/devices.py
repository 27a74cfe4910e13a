"""Checks of this machine's device nodes, without opening one and without following a link.

/dev belongs to root, so nothing hostile should be there: this is the second line of defence behind the rules.
"""

import os
import stat
from collections.abc import Sequence
from typing import Final

from fairlead.warden import capabilities, folders, rules
from fairlead.warden.spec import USB_MAJOR

_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FORBIDDEN: Final = {
    "03": "an input device",
    "08": "a storage device",
    "09": "a hub",
    "0b": "a smart card",
    "e0": "a radio",
}
"""Classes of USB devices and interfaces that no accelerator needs."""
_DESPITE_CLASS: Final = frozenset({"05e3:0769"})
"""Accelerators with another device class: Gyrfalcon's are behind a storage bridge."""
_SMALL: Final = 64


class Devices:
    """The device nodes below a root folder; an empty root is the machine itself."""

    def __init__(self, root: str = "") -> None:
        self.root = root.rstrip("/")

    def fault(self, path: str) -> str | None:
        """Return the fault of a device node; None where it is valid, or does not exist (yet)."""
        return capabilities.capability_fault(path, self.root) or self._node_fault(path)

    def _node_fault(self, path: str) -> str | None:
        try:
            status = self._status(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"cannot be checked: {error.strerror}"
        if stat.S_ISLNK(status.st_mode):
            return "it is a link, not a device"
        if not stat.S_ISCHR(status.st_mode):
            return "it is not a character device"
        address = rules.usb_address(path)
        if address is None:
            return None
        minor = rules.usb_minor(*address)
        if status.st_rdev != os.makedev(USB_MAJOR, minor):
            return "it is not the USB device that its path names"
        return self._usb_fault(minor)

    def together_fault(self, paths: Sequence[str]) -> str | None:
        """Return why these nodes may not be those of one device; None where they may."""
        return capabilities.instances_fault(paths, self.root)

    def _status(self, path: str) -> os.stat_result:
        *folders, name = path.strip("/").split("/")
        place = os.open(self.root or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                inner = os.open(folder, _FOLDER, dir_fd=place)
                os.close(place)
                place = inner
            return os.stat(name, dir_fd=place, follow_symlinks=False)
        finally:
            os.close(place)

    def _usb_fault(self, minor: int) -> str | None:
        """Return the fault of a USB device's class: keyboards, disks and security keys have nodes as well."""
        device = f"{self.root}/sys/dev/char/{USB_MAJOR}:{minor}"
        try:
            interfaces = [name for name in os.listdir(device) if ":" in name]
        except OSError:  # no sysfs here, or the device was just unplugged
            return None
        if f"{_read(f'{device}/idVendor')}:{_read(f'{device}/idProduct')}" in _DESPITE_CLASS:
            return None
        files = [f"{device}/bDeviceClass", *(f"{device}/{name}/bInterfaceClass" for name in interfaces)]
        what = next((_FORBIDDEN[text] for text in map(_read, files) if text in _FORBIDDEN), None)
        return f"it is {what}" if what else None


def _read(path: str) -> str:
    try:
        return (folders.read(path, _SMALL) or b"").decode("ascii", "replace").strip()
    except OSError:
        return ""
