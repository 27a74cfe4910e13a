"""Numbers as protocol buffers write them: seven bits a byte, the lowest first."""

from typing import Final

WORD: Final = 2**64 - 1
CUT: Final = "a message is cut off"


def encode(number: int) -> bytes:
    """Return a number as it is written; a negative one as if it had no sign."""
    number &= WORD
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def decode(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the unsigned number at `start` and where it ends; ValueError where that is not before `end`."""
    value = shift = 0
    while start < end:
        byte = data[start]
        start += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & WORD, start
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")
    raise ValueError(CUT)
