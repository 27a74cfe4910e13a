"""The published figures: R. V. Raheja, UNC Charlotte 2020, four containers for images of 1280x720.

Throughput is at hand as numbers; of latency, of the ratio of communication to computation and of the five
cuts only what the text says. Means of one run of 1,000 images each.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PublishedThroughput:
    """One machine of the thesis: a program on one core, and four containers."""

    machine: str
    cores: int
    one_process: float
    """Frames a second."""
    four_processes: float
    stated_gain_percent: float

    @property
    def gain(self) -> float:
        """The gain that follows from the two rates; the stated one of the server does not."""
        return self.four_processes / self.one_process


THROUGHPUT: Final = (
    PublishedThroughput("server (Xeon)", 32, 15.9, 27.9, 76.58),
    PublishedThroughput("edge (Xavier)", 8, 7.11, 14.5, 103.94),
)
CLAIMS: Final = (
    "The latency of a frame is larger in every arrangement of several processes than in one.",
    "The first stage is on the edge where the edge takes part at all: ESSS, EESS, EEES, EEEE.",
    "Copies of the whole program and threads were not measured.",
)
SIZE: Final = (720, 1280)
