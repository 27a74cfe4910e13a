"""How much storage an augmentation needs, from the most that it has used. Pure."""

from typing import Final

from fairlead.units import Bytes

_MEBIBYTE: Final = 1 << 20
_LEAST: Final = 16 * _MEBIBYTE
"""A claim that is smaller is not worth its object."""
_WORTH: Final = 4
"""An excess counts from a fourth of the size."""


def needed_size(peak: int) -> Bytes:
    """Return the most that was used and a quarter more, in whole mebibytes."""
    wanted = max(_LEAST, peak + peak // 4)
    return Bytes(-(-wanted // _MEBIBYTE) * _MEBIBYTE)


def excess_of(size: int, needed: int) -> Bytes:
    """Return by how much a size is too large; 0 where that is little."""
    excess = size - needed
    return Bytes(excess if excess * _WORTH >= size else 0)
