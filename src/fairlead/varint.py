"""Varints of protocol buffers: seven bits per byte, the lowest first."""

from typing import Final

WORD: Final = 2**64 - 1
CUT: Final = "a message is cut off"


def encode(number: int) -> bytes:
    """Return a number as a varint; a negative one in two's complement of 64 bits."""
    number &= WORD
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def decode(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the unsigned number at `start` and its end; ValueError if it does not end before `end`."""
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
