"""A trace that is the same everywhere: a few files are used often, and each has its own size."""

from fairlead.access import Access, AccessOp
from fairlead.units import Bytes, Seconds

_FACTOR, _STEP, _WORD = 6364136223846793005, 1442695040888963407, 2**64


def trace(count: int = 5000, files: int = 400, largest: int = 1000) -> list[Access]:
    """Return reads of files; the size of a file never changes."""
    state, accesses = 1, []
    for time in range(count):
        state = (state * _FACTOR + _STEP) % _WORD
        one = (state >> 33) % files
        state = (state * _FACTOR + _STEP) % _WORD
        number = one * ((state >> 33) % files) // files
        size = 1 + (number * 2654435761) % largest
        accesses.append(Access(Seconds(time), str(number), Bytes(size), AccessOp.READ))
    return accesses


def accesses(text: str, size: int = 10) -> list[Access]:
    """Return accesses from words such as `a`, `b!` (a write) and `c=30` (with its bytes)."""
    found = []
    for time, word in enumerate(text.split()):
        key, _, bytes_ = word.replace("!", "").partition("=")
        op = AccessOp.WRITE if "!" in word else AccessOp.READ
        found.append(Access(Seconds(time), key, Bytes(int(bytes_ or size)), op))
    return found
