"""The events of the scheduler's state machine, beside changes of objects and answers to its effects."""

from dataclasses import dataclass
from typing import Any

from fairlead.cluster.watch.changes import ObjectChange
from fairlead.serve.machine.flow import Answered


@dataclass(frozen=True, slots=True)
class Start:
    """The program starts."""

    wall: float
    """The time of day in seconds since 1970; only texts depend on it."""
    nonce: str
    """Different in every run of the program."""


@dataclass(frozen=True, slots=True)
class Synced:
    """Every object was listed."""

    claims: bool
    """Whether the API server serves ResourceClaims."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """Apply what changed, and decide for the next pod or gang."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""

    wall: float


@dataclass(frozen=True, slots=True)
class Explain:
    """A client asks why a pod waits."""

    namespace: str
    name: str
    uid: str
    rest: float = 0.0
    """Seconds for which no answer is computed, as the last ones took long."""


@dataclass(frozen=True, slots=True)
class Announce:
    """The annotations by which the Lease shows where its holder answers."""

    annotations: dict[str, str]


@dataclass(frozen=True, slots=True)
class Stop:
    """Finish what is in flight, and release the Lease."""


Event = ObjectChange[Any] | Answered | Start | Synced | Cycle | Tick | Explain | Announce | Stop
