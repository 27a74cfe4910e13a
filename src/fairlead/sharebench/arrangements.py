"""The arrangements that are compared: their names, and how each one runs its engines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

EXCLUSIVE: Final = "exclusive"
SAFE: Final = "fairlead-safe"
BY_REQUEST: Final = "res-ag"
MEASURED: Final = "cbp+pp"
FIXED: Final = {"fixed-4": 4, "fixed-8": 8, "fixed-16": 16}
MODES: Final = (EXCLUSIVE, *FIXED, BY_REQUEST, MEASURED, SAFE)
PLAIN, MPS = "plain", "mps"
LIMITERS: Final = (PLAIN, MPS)
QUEUED: Final = frozenset({EXCLUSIVE, SAFE})
"""The arrangements that fairlead's own queue runs; the others are pools of processes."""
OVERPROVISION: Final = 2.0
"""What `res-ag` and `cbp+pp` are told that an engine needs, over what it uses: 100 % more."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """One way to run all engines."""

    mode: str
    limiter: str

    @property
    def name(self) -> str:
        """The name for people."""
        return f"{self.mode}, {self.limiter}"

    @property
    def mps(self) -> bool:
        """Whether engines run under MPS."""
        return self.limiter == MPS


def arrangements_of(modes: Sequence[str], limiters: Sequence[str]) -> tuple[Arrangement, ...]:
    """Return the arrangements: every mode under every limiter, but one engine alone never under MPS."""
    every = (Arrangement(mode, limiter) for limiter in limiters for mode in modes)
    return tuple(each for each in every if each.mode != EXCLUSIVE or not each.mps or limiters == (MPS,))


def in_rounds(
    modes: Sequence[str], limiters: Sequence[str], rounds: int
) -> Iterator[tuple[int, Arrangement]]:
    """Yield the arrangements of each round, numbered from 1; every second round runs them in reverse.

    A machine that gets slower or faster over time then changes all of them alike.
    """
    forward = arrangements_of(tuple(modes), tuple(limiters))
    for number in range(1, rounds + 1):
        for arrangement in forward if number % 2 else reversed(forward):
            yield number, arrangement


def job_options(mode: str, limiter: str, gpu: str) -> tuple[str, ...]:
    """Return the options of `fairlead submit` for an engine; `gpu` is empty on a machine without one.

    Sizes are stated nowhere: what fairlead-safe knows it has learned. Without a GPU, cores take its place.
    """
    if not gpu:
        return ("--gpus", "0")
    whole = ("--gpus", "1") if mode == EXCLUSIVE else ()
    return (*whole, "--device", gpu, "--limiter", "mps" if limiter == MPS else "watchdog")
