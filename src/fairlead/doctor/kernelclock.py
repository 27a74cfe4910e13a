"""Ask the kernel whether something keeps its clock right."""

import ctypes
from typing import Final

_UNSYNCHRONISED: Final = 0x40
"""STA_UNSYNC, of the field `status`."""
_ROOM: Final = 512
"""More than `struct timex` takes on any machine."""


def is_synchronised() -> bool | None:
    """Return what the kernel says of its clock; None where it may not be asked."""
    # modes, offset, freq, maxerror, esterror, status: modes 0 asks and changes nothing.
    status = 5 * ctypes.sizeof(ctypes.c_long)
    room = ctypes.create_string_buffer(_ROOM)
    try:
        answer = ctypes.CDLL(None).adjtimex(room)
    except (OSError, AttributeError):
        return None
    if answer < 0:
        return None
    return not ctypes.c_int.from_buffer(room, status).value & _UNSYNCHRONISED
