"""What is known of a device without running anything on it: words and the figures of its data sheet."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.estimate.traits import Array

_WORD = re.compile(r"[a-z]+|[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Device:
    """A device as models meet it: another runtime, precision or mode is another device."""

    name: str
    aspects: tuple[frozenset[str], ...] = ()
    """Words for each side of it: chip, runtime, precision and mode, configuration."""
    ops: float | None = None
    """Operations per second at its precision, a multiply-add counting as two."""
    bandwidth: float | None = None
    """Bytes per second to the memory that models live in."""


def words(text: str) -> frozenset[str]:
    """Return the words and numbers of a text, in lower case: `Cortex-A72` is `cortex`, `a` and `72`."""
    return frozenset(_WORD.findall(text.lower()))


def likeness(one: Device, others: Sequence[Device]) -> Array:
    """Return for each other device the shares of words in common, added over the aspects."""
    return np.array([sum(map(_shared, one.aspects, other.aspects)) for other in others], dtype=np.float64)


def _shared(one: frozenset[str], two: frozenset[str]) -> float:
    return len(one & two) / len(one | two) if one | two else 1.0
