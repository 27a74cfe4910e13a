"""What is known of a device without running anything on it: words and the figures of its data sheet."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.estimate.similar.traits import Array

_WORD = re.compile(r"[a-z]+|[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class DeviceTraits:
    """A device as models meet it: another runtime, precision or mode is another device."""

    name: str
    aspects: tuple[frozenset[str], ...] = ()
    """Words for each side of it: chip, runtime, precision and mode, configuration."""
    kind: str = ""
    """What computes: `cpu`, `gpu`, `npu`, ...; empty where it is not known."""
    ops: float | None = None
    """Operations per second at its precision, as the data sheet has it; a multiply-add counts as two."""


def words(text: str) -> frozenset[str]:
    """Return the words and numbers of a text, in lower case: `Cortex-A72` is `cortex`, `a` and `72`."""
    return frozenset(_WORD.findall(text.lower()))


def word_similarity(one: DeviceTraits, others: Sequence[DeviceTraits]) -> Array:
    """Return for each other device the shares of words in common, added over the aspects."""
    return np.array([sum(map(_jaccard, one.aspects, other.aspects)) for other in others], dtype=np.float64)


def shared_words(devices: Sequence[DeviceTraits]) -> Array:
    """Return by aspect, device x device, the share of words that two of them have in common."""
    aspects = max((len(device.aspects) for device in devices), default=0)
    shares = np.zeros((aspects, len(devices), len(devices)))
    for aspect in range(aspects):
        marks = _indicators(
            [device.aspects[aspect] if aspect < len(device.aspects) else () for device in devices]
        )
        both = marks @ marks.T
        either = marks.sum(1)[:, None] + marks.sum(1)[None] - both
        shares[aspect] = np.where(either > 0, both / np.maximum(either, 1), 1.0)
    return shares


def _jaccard(one: frozenset[str], two: frozenset[str]) -> float:
    both = len(one & two)
    either = len(one) + len(two) - both
    return both / either if either else 1.0


def _indicators(rows: Sequence[Collection[str]]) -> Array:
    places: dict[str, int] = {}
    found = [[places.setdefault(word, len(places)) for word in row] for row in rows]
    marks = np.zeros((len(rows), len(places)))
    for row, columns in enumerate(found):
        marks[row, columns] = 1
    return marks
