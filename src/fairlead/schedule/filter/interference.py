"""How much jobs on one accelerator slow each other down.

Two effects multiply. A price for each co-runner: contexts switch, and caches are shared. And saturation: jobs
cannot use more than the whole accelerator, so with more than a full load each gets its part.

The price comes from published and measured runs of small engines. Time-slicing: among 3 to 5 of them, engines
take 1.2 to 1.4 times as long as alone (V100). The same price, and that of MPS, agree with 8 and 16 engines on
one H200: median latency 7.8 and 12.5 ms by time-slicing, 5.5 and 6.5 ms under MPS.

That is the slowdown of the mean. The slowest queries meet more turns of the others: an SLO is held against
the slowdown of the 99th percentile, which is higher by a tail as soon as there is a co-runner. The tails come
from sixteen engines on one H200, whose worst p99 was 1.56 times the slowdown of the mean by time-slicing.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

TIME_SLICING_PRICE: Final = 0.10
MPS_PRICE: Final = 0.025
TIME_SLICING_TAIL: Final = 0.8
MPS_TAIL: Final = 0.25

Number = TypeVar("Number", float, NDArray[np.float64])

Slowdown = Callable[[int, float], float]
"""Maps the number of jobs of an accelerator and the sum of their loads to a slowdown factor."""


def price_factor(co_runners: Number, price: Number) -> Number:
    """Return the slowdown by contexts that switch and caches that are shared."""
    return 1.0 + price * co_runners


def tail_factor(co_runners: Number, tail: Number) -> Number:
    """Return how much more the 99th percentile slows down than the mean; a job alone has no tail."""
    return 1.0 + tail * co_runners / (co_runners + 1.0)


def none(jobs: int, load: float) -> float:
    """Run jobs as if alone: correct for a trace whose durations were recorded with co-runners."""
    return 1.0


def time_slicing(jobs: int, load: float) -> float:
    """Contexts take turns on the whole accelerator."""
    return price_factor(float(max(0, jobs - 1)), TIME_SLICING_PRICE) * max(1.0, load)


def mps(jobs: int, load: float) -> float:
    """Contexts run side by side through one server."""
    return price_factor(float(max(0, jobs - 1)), MPS_PRICE) * max(1.0, load)


def time_slicing_p99(jobs: int, load: float) -> float:
    """Return the slowdown of the 99th percentile where contexts take turns."""
    return tail_factor(float(max(0, jobs - 1)), TIME_SLICING_TAIL) * time_slicing(jobs, load)


def mps_p99(jobs: int, load: float) -> float:
    """Return the slowdown of the 99th percentile where contexts run side by side."""
    return tail_factor(float(max(0, jobs - 1)), MPS_TAIL) * mps(jobs, load)


MODELS: Final[Mapping[str, Slowdown]] = {"none": none, "time-slicing": time_slicing, "mps": mps}
