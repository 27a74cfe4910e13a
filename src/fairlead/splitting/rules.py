"""The constants of the split."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SplitRules:
    """How much a worker gets at once, and when its inputs go to others."""

    horizon: float = 2.0
    """Seconds of work in one chunk, at most."""
    fraction: float = 0.25
    """Of the time left, at most this share in one chunk."""
    shortest: float = 0.1
    """Seconds of work in one chunk, at least: a fast worker must not ask for each input."""
    copying: float = 0.05
    """Seconds of work that an idle worker copies at once, where inputs are short."""
    most: int = 1000
    """Inputs in one chunk, at most."""
    light: float = 0.02
    heavy: float = 0.3
    """The least and the largest weight of one completion in the rate."""
    sooner: float = 1.2
    """An idle worker copies an input that it would end this many times sooner."""
    overdue: float = 1.1
    """A worker whose completion is this many times as late as expected is copied from."""
    lease: float = 10.0
    """Seconds of a lease, at least."""
    lease_factor: float = 3.0
    """A lease is this many times the expected time."""
    silence: float = 3.0
    """After so many seconds without a word, nothing is planned with a worker."""
    helps: float = 0.01
    """With a gain below this share, splitting does not help."""
    often: float = 0.02
    rarely: float = 0.5
    """The least and the most seconds between two contacts of a worker that works."""
