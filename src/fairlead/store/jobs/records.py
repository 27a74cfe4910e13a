"""What the database of the jobs holds, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PENDING: Final = 0
DONE: Final = 1
FAILED: Final = 2

RUNNING: Final = "running"
ENDED: Final = ("done", "cancelled")


@dataclass(frozen=True, slots=True)
class SplitJobRecord:
    """A job in the database."""

    number: int
    id: str
    spec: Mapping[str, Any]
    state: str
    complete: bool
    """Whether no further input comes."""
    created: float
    started: float | None
    last: float | None
    """When the last result was committed."""


@dataclass(frozen=True, slots=True)
class NewInput:
    """An input as its feeder states it."""

    path: str
    digest: str
    size: int
    stored: bool
    where: str = ""


@dataclass(frozen=True, slots=True)
class OfferedResult:
    """A result that a worker hands in, verified."""

    input: int
    digest: str
    size: int
    seconds: float
    interval: float | None
    data: bytes | None
    """Its content; None: it is staged."""
    staged: str = ""
    """The path of an upload in the store."""


@dataclass(frozen=True, slots=True)
class OfferedFailure:
    """An input on which a worker failed."""

    input: int
    exit: int | None
    error: str


@dataclass(frozen=True, slots=True)
class UnplacedResult:
    """A committed result that is not yet under its name."""

    number: int
    """In the order of the commits."""
    job: int
    job_id: str
    seq: int
    path: str
    digest: str
    data: bytes | None
    staged: str
    input_file: str
    """The uploaded input that can go; empty: none."""


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """What a worker has done for a job."""

    name: str
    site: str
    done: int
    failed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Committed:
    """What counts of that which a worker handed in."""

    done: frozenset[int]
    """Inputs that have this result now."""
    failed: frozenset[int]
    revived: int
    """Of `done`, those that had failed before."""
