"""Need: the memory of an accelerator that a pod is expected to hold, and the size by which it is counted.

A pod that cannot exceed a limit is *firm*: it counts with that limit. Any other pod is *soft*: its memory is
a distribution, and it counts with its effective size, which lies between its mean and its peak. If the
effective sizes of all soft pods, the limits of all firm pods and one headroom together fit into the memory of
an accelerator, the probability that the pods together need more is at most the stated bound. This is
Chernoff's bound: for independent needs X and any s > 0, P(sum X > c) <= exp(s * (sum e(X) - c)), where
e(X) = log(E[exp(s * X)]) / s. With s = log(1 / bound) / headroom the right side is the bound itself.

Because sizes add up, the engine counts them like requests.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log
from typing import Final

from fairlead.compat import StrEnum
from fairlead.units import Bytes

DEFAULT_BOUND: Final = 1e-3
"""The default probability, for one placement, that the pods of an accelerator need more than it has."""
HEADROOM: Final = 0.15
"""The part of an accelerator's memory that stays free beside soft pods."""


class NeedSource(StrEnum):
    """What a need was derived from, best first."""

    OBSERVED = "observed"
    """Measured use of the pod itself, after its ramp."""
    HISTORY = "history"
    """Measured use of other pods of the same image or model."""
    PROFILE = "profile"
    """A model profile, or sizes that the user states."""
    REQUEST = "request"
    """The plain request: nothing else is known, or the measurements are missing or stale."""


@dataclass(frozen=True, slots=True)
class Need:
    """The memory that a pod is expected to hold of each of its accelerators."""

    sizes: tuple[Bytes, ...]
    """Ascending."""
    weights: tuple[float, ...]
    """The probability of each size; their sum is 1."""
    firm: bool = False
    """The pod cannot hold more than the last size: its framework has that limit."""
    source: NeedSource = NeedSource.REQUEST
    note: str = ""
    """For people: why the source is not a better one."""
    bound: float = DEFAULT_BOUND
    """The probability per sample; all pods of an accelerator have the same one."""

    @classmethod
    def fixed(
        cls, size: Bytes, *, firm: bool = True, source: NeedSource = NeedSource.REQUEST, note: str = ""
    ) -> "Need":
        """Return a need of one size."""
        return cls((size,), (1.0,), firm, source, note)

    @property
    def peak(self) -> Bytes:
        """The largest size."""
        return self.sizes[-1]


def headroom(capacity: int) -> Bytes:
    """Return the memory that stays free on an accelerator with at least one soft pod."""
    return Bytes(int(capacity * HEADROOM))


@lru_cache(maxsize=65536)
def effective_size(need: Need, capacity: int) -> Bytes:
    """Return the memory that a pod counts for on an accelerator with this much memory."""
    peak = need.peak
    room = headroom(capacity)
    if need.firm or len(need.sizes) == 1 or not room:
        return peak
    rate = log(1.0 / need.bound) / room
    pairs = zip(need.sizes, need.weights, strict=True)
    mean = sum(weight * exp(rate * (size - peak)) for size, weight in pairs)
    return Bytes(min(peak, max(0, round(peak + log(mean) / rate))))


def need_problems(need: Need) -> Iterator[str]:
    """Yield why a need is invalid."""
    if not need.sizes or len(need.sizes) != len(need.weights):
        yield f"{len(need.sizes)} sizes and {len(need.weights)} weights"
    elif list(need.sizes) != sorted(need.sizes) or not 0 <= need.sizes[0] <= need.sizes[-1] < 2**62:
        yield "the sizes are not ascending amounts"
    elif min(need.weights) < 0 or abs(sum(need.weights) - 1) > 1e-6:
        yield f"the weights add up to {sum(need.weights):g} instead of 1"
    elif not 0 < need.bound < 1:
        yield f"the bound {need.bound:g} is no probability"
