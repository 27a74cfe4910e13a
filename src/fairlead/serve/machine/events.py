"""The events that every state machine of a program has, beside changes of objects and answers to effects."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """The program starts."""

    wall: float
    """The time of day in seconds since 1970; only texts depend on it."""
    nonce: str
    """Different in every run of the program."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""

    wall: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Finish what is in flight, and release the Lease."""
