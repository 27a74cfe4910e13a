"""Kernel uevents: devices that appeared, disappeared or changed their driver."""

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
"""The subsystems of accelerators and their drivers."""


@dataclass(frozen=True, slots=True)
class Uevent:
    """One uevent."""

    action: str
    path: str
    subsystem: str

    @property
    def matters(self) -> bool:
        """Whether an accelerator may have changed."""
        return self.subsystem in SUBSYSTEMS


def parse(message: bytes) -> Uevent | None:
    """Parse `add@/devices/...` and its fields; None for anything else, such as udev's own messages."""
    head, *fields = message.split(b"\0")
    action, at, path = head.partition(b"@")
    if not at or not action.isalpha() or not path.startswith(b"/"):
        return None
    values = dict(field.partition(b"=")[::2] for field in fields)
    return Uevent(action.decode("ascii"), _text(path), _text(values.get(b"SUBSYSTEM", b"")))


def _text(data: bytes) -> str:
    return printable(data.decode("utf-8", "replace"))


class UeventSocket:
    """An open netlink socket for uevents."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    @classmethod
    def open(cls) -> "UeventSocket":
        """Open the socket; raises OSError where netlink is not available, as in some sandboxes."""
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, _KOBJECT_UEVENT)
        try:
            sock.bind((0, _KERNEL_GROUP))
        except OSError:
            sock.close()
            raise
        return cls(sock)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._socket.fileno()

    def changed(self) -> bool:
        """Read all pending uevents, and say whether an accelerator may have changed."""
        events, lost = self.read()
        return lost or any(event.matters for event in events)

    def read(self) -> tuple[list[Uevent], bool]:
        """Return the pending uevents, and whether some were lost: then any device may have changed."""
        events: list[Uevent] = []
        lost = False
        for _ in range(_BATCH):
            try:
                message, (sender, _group) = self._socket.recvfrom(_MESSAGE_LIMIT)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                lost = True
                continue
            event = parse(message) if sender == 0 else None  # only messages of the kernel itself
            events += [event] if event else []
        return events, lost

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
