"""Counts of work of models, from the tables that have them, for other tables of the same file.

Only counts of work pass between tables, by the names of models; no measurement does.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairlead.evaluate.rows import Measurement

_TAG: Final = re.compile(r"\.[a-z].*")
"""The tag that names a model's weights: `resnet50.a1_in1k`."""
_LETTERS: Final = re.compile(r"[^a-z0-9]+")
_SIDE: Final = re.compile(r"[0-9]+")
_PER_PIXEL: Final = ("macs", "activations")
"""Amounts that grow with the input; parameters do not."""
Amounts = dict[str, float]


@dataclass(frozen=True, slots=True)
class KnownAmounts:
    """Amounts by the plain name of a model and the side of its input, 0 where that is not given."""

    models: Mapping[str, Mapping[int, Amounts]]

    @classmethod
    def of(cls, rows: Iterable[Measurement]) -> "KnownAmounts":
        """Collect the amounts of all rows; of several, the median counts."""
        by_model: dict[str, dict[int, dict[str, list[float]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        for row in rows:
            for amount, value in row.amounts.items():
                by_model[_plain_name(row.model)][_side(row.size)][amount].append(value)
        return cls(
            {
                name: {
                    side: {amount: float(np.median(values)) for amount, values in amounts.items()}
                    for side, amounts in sides.items()
                }
                for name, sides in by_model.items()
            }
        )

    def amounts(self, model: str, size: str) -> Amounts:
        """Return the amounts of a model; where only other sizes were counted, the nearest size's, scaled."""
        sides, side = self.models.get(_plain_name(model), {}), _side(size)
        scaled: Amounts = {}
        for amount in sorted({amount for amounts in sides.values() for amount in amounts}):
            counted = [other for other in sides if amount in sides[other]]
            nearest = min(counted, key=lambda other: (other == 0, abs(other - side) if side else other))
            scale = (side / nearest) ** 2 if side and nearest and amount in _PER_PIXEL else 1.0
            scaled[amount] = sides[nearest][amount] * scale
        return scaled


def _plain_name(model: str) -> str:
    return _LETTERS.sub("", _TAG.sub("", model.lower()))


def _side(size: str) -> int:
    """Return the side of a square input: the largest number of its size."""
    return max(map(int, _SIDE.findall(size)), default=0)
