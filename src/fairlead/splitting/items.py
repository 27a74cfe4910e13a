"""What is handed out: inputs of a split job, and leases of them."""

from dataclasses import dataclass
from enum import Enum


class BytesAt(Enum):
    """Where a worker finds the bytes of inputs."""

    LOCAL = "local"
    """It has the inputs that the store does not; it prefers them."""
    STORED = "stored"
    """It reads what is stored."""
    ALL = "all"
    """It has every input."""


@dataclass(frozen=True, slots=True)
class SplitInput:
    """One input of a job."""

    id: int
    path: str
    digest: str
    size: int
    stored: bool = True
    where: str = ""
    """The path in the store where its bytes are; empty: the usual one."""


@dataclass(frozen=True, slots=True)
class SplitLease:
    """An input that a worker holds until some time."""

    input: SplitInput
    worker: str
    number: int
    until: float
    copy: bool = False
    """Another worker holds the input as well; the first result counts."""
