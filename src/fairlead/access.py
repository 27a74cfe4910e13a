"""Access: one read or write of a file, as a trace records it."""

from typing import NamedTuple

from fairlead.compat import StrEnum
from fairlead.units import Bytes, Seconds


class AccessOp(StrEnum):
    """What the access did with the file."""

    READ = "read"
    WRITE = "write"


class Access(NamedTuple):
    """One read or write of a whole file; a tuple, because a trace holds millions."""

    time: Seconds
    key: str
    bytes: Bytes
    """The size of the whole file."""
    op: AccessOp
