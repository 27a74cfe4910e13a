"""What a source answers when it has more to say than the next value."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Pending:
    """There is no frame yet: wait for a descriptor, at most until a moment, and read again."""

    descriptor: int | None = None
    until: float = math.inf
    """CLOCK_BOOTTIME."""
    notice: str = ""
    """A line for people."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A value that arrived earlier than it was read."""

    value: Any
    captured: float
    """CLOCK_BOOTTIME."""
    dropped: int = 0
    """Values that arrived before it and were dropped, because the pipeline did not take them in time."""
