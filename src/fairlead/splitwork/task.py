"""What a worker holds and makes, and the seams: what runs an input, where its bytes are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class LeasedInput:
    """An input that the coordinator has leased to this worker."""

    input: int
    lease: int
    path: str
    digest: str
    size: int
    where: str
    """The path of its bytes in the store; empty: the store does not have them."""
    copy: bool = False


@dataclass(frozen=True, slots=True)
class InputFailure:
    """Why an input has no result."""

    exit: int | None
    """The exit code of its program; minus the number of the signal that ended it; None: it had none."""
    error: str


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The input goes to another worker: it was interrupted."""


Made = bytes | InputFailure | GivenUp | None
"""What comes of an input: the result itself, or None where its file has it."""


@dataclass(slots=True)
class WorkTask:
    """An input that this worker holds."""

    lease: LeasedInput
    arrived: float
    """When its lease came."""
    source: str = ""
    """The file with its bytes; empty: they are on their way."""
    ready: float = 0.0
    """When its bytes were there."""
    fetched: bool = False
    """Whether the file was fetched for this task, and goes with it."""


class InputExecutor(Protocol):
    """Runs inputs, one after the other; a worker has one for each slot."""

    def run(self, task: WorkTask, target: str) -> Made:
        """Make the result of an input: return it, or write it into the target file and return None."""

    def interrupt(self) -> None:
        """Give up the input that is run, and run no others; called from another thread."""

    def drop(self, task: WorkTask) -> None:
        """Give up this input if it is run and that is worth it: another worker has its result."""

    def close(self) -> None:
        """Give back what it holds."""


class InputPlace(Protocol):
    """Where inputs are on this machine."""

    def find(self, lease: LeasedInput) -> str | None:
        """Return the file with exactly this content; None: it must be fetched."""


class StoreLink(Protocol):
    """Requests to the store of a job; StoreUnavailableError where they can be repeated later."""

    def exchange(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Exchange with the coordinator."""

    def fetch(self, where: str, target: str) -> None:
        """Write a file of the store into a file of this machine."""

    def stage(self, name: str, source: str, digest: str, size: int) -> str:
        """Upload a result, and return its path in the store."""

    def interrupt(self) -> None:
        """End the request that another thread waits for."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True)
class FinishedInput:
    """An input that this worker has ended, and has not handed in yet."""

    lease: LeasedInput
    seconds: float
    interval: float
    digest: str = ""
    size: int = 0
    data: bytes | None = None
    """The result; None: it is a file."""
    file: str = ""
    staged: str = ""
    """Where its upload is in the store."""
    failure: InputFailure | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it can be handed in."""
        return self.failure is not None or self.data is not None or bool(self.staged)
