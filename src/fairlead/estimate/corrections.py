"""Correct data sheets by what calibrated devices like them gave of theirs."""

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
"""The data sheet counts as much as half a device of the same family."""
_MOST: Final = log(8)
"""No amount is corrected by more: beyond it a fit says that it could not tell."""
_REACH: Final = 1.5
"""Devices resemble one another while their peaks differ by less than about e to this."""
_SAME_KIND: Final = 0.25
_SAME_ASPECT: Final = {"vendor": 0.25, "family": 0.5, "device": 1.0}
"""What it counts to be of one kind, and what it adds to be of one vendor, family or model."""
_OTHER_PRECISION: Final = 0.5
_LEAST_SIMILARITY: Final = 0.1
"""Below this nothing is learnt."""


@dataclass(frozen=True, slots=True)
class Corrections:
    """What calibrated devices say of others."""

    factors: Array
    """Targets x amounts: what the data sheet's seconds are multiplied by."""
    trust: Array
    """From 0, nothing is known, to 1: as good as the devices that it comes from."""
    spread: Array
    """Of those devices, at models that were not run on them."""


def corrections(
    targets: Sequence[Target], precisions: Sequence[str], rates: Array, others: Sequence[CalibratedFit]
) -> Corrections | None:
    """Return corrections from calibrated devices, each counted by how alike it is; None without any."""
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
    """Return targets x others: how much the one says of the other."""

    def same(name: str) -> Array:
        of = attrgetter(name)
        return _equal([*map(of, targets)], [of(other.target) for other in others])

    kindred = _SAME_KIND + sum(gain * same(name) for name, gain in _SAME_ASPECT.items())
    known = _equal(precisions, [other.setup.precision for other in others])
    precise = np.where(known > 0, 1.0, _OTHER_PRECISION)
    theirs = np.array([other.rate for other in others])
    distance = np.log(rates[:, None] / theirs) / _REACH
    return np.asarray(same("kind") * kindred * precise * np.exp(-0.5 * distance**2))


def _equal(ours: Sequence[str], theirs: Sequence[str]) -> Array:
    """Return ours x theirs: 1 where two words are the same. Numbers stand for words: they compare faster."""
    codes = {word: code for code, word in enumerate(dict.fromkeys(theirs))}
    left, right = [np.array([codes.get(word, -1) for word in words]) for words in (ours, theirs)]
    return np.asarray(left[:, None] == right, dtype=np.float64)
