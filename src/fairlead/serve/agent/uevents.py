"""The kernel's reports of devices that came, went or changed their driver."""

import errno
import socket
from dataclasses import dataclass
from typing import Final

from fairlead.host import printable

_KOBJECT_UEVENT: Final = 15
_KERNEL_GROUP: Final = 1
_MESSAGE_LIMIT: Final = 16 * 1024
_BATCH: Final = 1000
SUBSYSTEMS: Final = frozenset(
    {
        "accel", "apex", "axcl", "devfreq", "drm", "dxrt", "habanalabs", "hailo1x", "hailo_chardev", "kfd",
        "memx", "metis", "nvidia", "pci", "platform", "qaic", "rknpu", "tenstorrent", "usb",
    }
)  # fmt: skip
"""Where accelerators and their drivers show."""


@dataclass(frozen=True, slots=True)
class Uevent:
    """One report."""

    action: str
    path: str
    subsystem: str

    @property
    def matters(self) -> bool:
        """Whether an accelerator may have changed."""
        return self.subsystem in SUBSYSTEMS


def parse(message: bytes) -> Uevent | None:
    """Read `add@/devices/...` and the fields behind it; None for anything else, such as udev's own."""
    head, *fields = message.split(b"\0")
    action, at, path = head.partition(b"@")
    if not at or not action.isalpha() or not path.startswith(b"/"):
        return None
    named = dict(field.partition(b"=")[::2] for field in fields)
    return Uevent(action.decode("ascii"), _text(path), _text(named.get(b"SUBSYSTEM", b"")))


def _text(data: bytes) -> str:
    return printable(data.decode("utf-8", "replace"))


class UeventSocket:
    """An open line to the kernel's reports."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    @classmethod
    def open(cls) -> "UeventSocket":
        """Open the line; raises OSError where there is none, as in some sandboxes."""
        line = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, _KOBJECT_UEVENT)
        try:
            line.bind((0, _KERNEL_GROUP))
        except OSError:
            line.close()
            raise
        return cls(line)

    def fileno(self) -> int:
        """Return what to wait on."""
        return self._line.fileno()

    def changed(self) -> bool:
        """Read all that came, and say whether a device that matters changed."""
        events, lost = self.read()
        return lost or any(event.matters for event in events)

    def read(self) -> tuple[list[Uevent], bool]:
        """Return the reports that came, and whether some were lost: then any device may have changed."""
        events: list[Uevent] = []
        lost = False
        for _ in range(_BATCH):
            try:
                message, (sender, _group) = self._line.recvfrom(_MESSAGE_LIMIT)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                lost = True
                continue
            event = parse(message) if sender == 0 else None  # the kernel's own only
            events += [event] if event else []
        return events, lost

    def close(self) -> None:
        """Close the line."""
        self._line.close()
