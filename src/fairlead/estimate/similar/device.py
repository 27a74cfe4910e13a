"""The traits of a device that are known without a run: words, and figures of its data sheet."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.estimate.similar.traits import Array

_WORD = re.compile(r"[a-z]+|[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class DeviceTraits:
    """A device with a runtime, precision and mode; another of any of these is another device."""

    name: str
    aspects: tuple[frozenset[str], ...] = ()
    """Words for each aspect: chip, runtime, precision and mode, configuration."""
    kind: str = ""
    """The kind of processor: `cpu`, `gpu`, `npu`, ...; empty where it is not known."""
    ops: float | None = None
    """Operations per second at its precision, from the data sheet; a multiply-add counts as two."""


def words(text: str) -> frozenset[str]:
    """Return the words and numbers of a text, in lower case: `Cortex-A72` is `cortex`, `a` and `72`."""
    return frozenset(_WORD.findall(text.lower()))


def word_similarity(one: DeviceTraits, others: Sequence[DeviceTraits]) -> Array:
    """Return for each other device the share of words in common, added over the aspects."""
    return np.array([sum(map(_jaccard, one.aspects, other.aspects)) for other in others], dtype=np.float64)


def shared_words(devices: Sequence[DeviceTraits]) -> Array:
    """Return by aspect, device x device, the share of words that two devices have in common."""
    aspects = max((len(device.aspects) for device in devices), default=0)
    shares = np.zeros((aspects, len(devices), len(devices)))
    for aspect in range(aspects):
        indicators = _indicators(
            [device.aspects[aspect] if aspect < len(device.aspects) else () for device in devices]
        )
        common = indicators @ indicators.T
        union = indicators.sum(1)[:, None] + indicators.sum(1)[None] - common
        shares[aspect] = np.where(union > 0, common / np.maximum(union, 1), 1.0)
    return shares


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    common = len(left & right)
    union = len(left) + len(right) - common
    return common / union if union else 1.0


def _indicators(rows: Sequence[Collection[str]]) -> Array:
    """Return rows x words: 1 where a row has the word."""
    index_of: dict[str, int] = {}
    columns_by_row = [[index_of.setdefault(word, len(index_of)) for word in row] for row in rows]
    indicators = np.zeros((len(rows), len(index_of)))
    for row, columns in enumerate(columns_by_row):
        indicators[row, columns] = 1
    return indicators
