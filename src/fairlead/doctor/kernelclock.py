"""Ask the kernel whether its clock is synchronised."""

import ctypes
from typing import Final

_UNSYNCHRONISED: Final = 0x40
"""STA_UNSYNC, of the field `status`."""
_TIMEX_BYTES: Final = 512
"""More than `struct timex` takes on any machine."""


def is_synchronised() -> bool | None:
    """Return what the kernel says of its clock; None where the call is not permitted."""
    # modes, offset, freq, maxerror, esterror, status: with modes 0 the call reads and changes nothing.
    status = 5 * ctypes.sizeof(ctypes.c_long)
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    try:
        state = ctypes.CDLL(None).adjtimex(buffer)
    except (OSError, AttributeError):
        return None
    if state < 0:
        return None
    return not ctypes.c_int.from_buffer(buffer, status).value & _UNSYNCHRONISED
