"""How much jobs on one accelerator slow each other down.

Two effects multiply. A price for each co-runner: contexts switch, and caches are shared. And saturation: jobs
cannot use more than the whole accelerator, so with more than a full load each gets its part.

The price comes from published and measured runs of small engines. Time-slicing: among 3 to 5 of them, engines
take 1.2 to 1.4 times as long as alone (V100). The same price, and that of MPS, agree with 8 and 16 engines on
one H200: median latency 7.8 and 12.5 ms by time-slicing, 5.5 and 6.5 ms under MPS.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

TIME_SLICING_PRICE: Final = 0.10
MPS_PRICE: Final = 0.025

Number = TypeVar("Number", float, NDArray[np.float64])

Slowdown = Callable[[int, float], float]
"""Maps the number of jobs of an accelerator and the sum of their loads to a slowdown factor."""


def price_factor(co_runners: Number, price: Number) -> Number:
    """Return the slowdown by contexts that switch and caches that are shared."""
    return 1.0 + price * co_runners


def none(jobs: int, load: float) -> float:
    """Run jobs as if alone: correct for a trace whose durations were recorded with co-runners."""
    return 1.0


def time_slicing(jobs: int, load: float) -> float:
    """Contexts take turns on the whole accelerator."""
    return price_factor(float(max(0, jobs - 1)), TIME_SLICING_PRICE) * max(1.0, load)


def mps(jobs: int, load: float) -> float:
    """Contexts run side by side through one server."""
    return price_factor(float(max(0, jobs - 1)), MPS_PRICE) * max(1.0, load)


MODELS: Final[Mapping[str, Slowdown]] = {"none": none, "time-slicing": time_slicing, "mps": mps}
