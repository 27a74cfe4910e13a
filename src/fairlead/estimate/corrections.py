"""Correct data sheets by how far those of similar calibrated devices were off."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from operator import attrgetter
from typing import Final

import numpy as np

from fairlead.estimate.amounts import Array
from fairlead.estimate.calibrated import CalibratedFit
from fairlead.estimate.target import Target

_DATA_SHEET_WEIGHT: Final = 0.5
"""The data sheet counts as much as half a calibrated device of the same family."""
_MOST: Final = log(8)
"""No amount is corrected by more: a larger ratio means that the fit could not determine it."""
_REACH: Final = 1.5
"""Two devices are similar while their peaks differ by less than about e to this power."""
_SAME_KIND: Final = 0.25
_SAME_ASPECT: Final = {"vendor": 0.25, "family": 0.5, "device": 1.0}
"""Similarity of two devices of one kind, and what the same vendor, family or model adds."""
_OTHER_PRECISION: Final = 0.5
_LEAST_SIMILARITY: Final = 0.1
"""A device below this similarity counts for nothing."""


@dataclass(frozen=True, slots=True)
class Corrections:
    """Corrections of data sheets, from calibrated devices."""

    factors: Array
    """Targets x amounts: the factors of the data sheet's seconds."""
    trust: Array
    """From 0, no similar device, to 1: as reliable as the calibrated devices themselves."""
    spread: Array
    """Spread of those devices at models that did not run on them."""


def corrections(
    targets: Sequence[Target], precisions: Sequence[str], rates: Array, others: Sequence[CalibratedFit]
) -> Corrections | None:
    """Return corrections from calibrated devices, weighted by similarity; None without calibrated devices."""
    if not others:
        return None
    weights = _similarity(targets, precisions, rates, others)
    weights = np.where(weights < _LEAST_SIMILARITY, 0.0, weights)
    total = weights.sum(1)
    factors = np.exp(
        weights @ np.array([_ratios(other) for other in others]) / (total + _DATA_SHEET_WEIGHT)[:, None]
    )
    spread = weights @ np.array([other.spread for other in others]) / np.where(total > 0, total, 1)
    return Corrections(factors, total / (total + _DATA_SHEET_WEIGHT), spread)


def _ratios(other: CalibratedFit) -> Array:
    """Return the logarithm of measured over data sheet, for each amount."""
    return np.clip(np.log(np.maximum(other.times, 1e-300) / other.data_sheet_times), -_MOST, _MOST)


def _similarity(
    targets: Sequence[Target], precisions: Sequence[str], rates: Array, others: Sequence[CalibratedFit]
) -> Array:
    """Return the similarity of every target to every calibrated device, targets x others."""

    def same(name: str) -> Array:
        aspect = attrgetter(name)
        return _equal([*map(aspect, targets)], [aspect(other.target) for other in others])

    related = _SAME_KIND + sum(gain * same(name) for name, gain in _SAME_ASPECT.items())
    same_precision = _equal(precisions, [other.setup.precision for other in others])
    precision_factor = np.where(same_precision > 0, 1.0, _OTHER_PRECISION)
    other_rates = np.array([other.rate for other in others])
    distance = np.log(rates[:, None] / other_rates) / _REACH
    return np.asarray(same("kind") * related * precision_factor * np.exp(-0.5 * distance**2))


def _equal(ours: Sequence[str], theirs: Sequence[str]) -> Array:
    """Return ours x theirs: 1 where two words are equal. The words become numbers, which compare faster."""
    codes = {word: code for code, word in enumerate(dict.fromkeys(theirs))}
    left, right = [np.array([codes.get(word, -1) for word in words]) for words in (ours, theirs)]
    return np.asarray(left[:, None] == right, dtype=np.float64)
