"""What is held of each accelerator in sum, so that a check of what is left costs the same for any number."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fairlead.inventory import Accelerator
from fairlead.offer import Form, Holding
from fairlead.publish.parts import divisible, exclusive, mebibytes, unit_of
from fairlead.publish.spans import Spans, count, minus, union

Key = tuple[str, Form, int]
"""An accelerator, a form, and the MiB of a unit; 0 where nothing is counted in units."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The sum of what is held of one accelerator."""

    whole: int = 0
    """How many hold all of it."""
    parts: int = 0
    """How many claims hold some of its memory."""
    claimed: int = 0
    """MiB that these claims hold."""
    units: Mapping[int, Spans] = field(default_factory=dict)
    """By the MiB of a unit, the numbered units that containers hold."""

    @property
    def mebibytes(self) -> int:
        """How much memory is held in parts."""
        return self.claimed + sum(unit * count(spans) for unit, spans in self.units.items())

    def plus(self, holding: Holding) -> "Tally":
        """Return the sum with one more holding; a unit counts once, whoever holds it."""
        if holding.form is Form.MEMORY:
            unit = unit_of(holding)
            spans = union((*self.units.get(unit, ()), *holding.units))
            return replace(self, units={**self.units, unit: spans})
        if holding.form is Form.WHOLE or not holding.mebibytes:
            return replace(self, whole=self.whole + 1)
        return replace(self, parts=self.parts + 1, claimed=self.claimed + holding.mebibytes)

    def touches(self, holding: Holding) -> bool:
        """Say whether a container has some of what is asked for by a container."""
        if holding.form is Form.WHOLE:
            return self.whole > 0
        return minus(holding.units, self.units.get(unit_of(holding), ())) != holding.units

    def admits(self, acc: Accelerator, asked: Holding) -> bool:
        """Say whether a holding can be given beside those that there are."""
        if asked.form is Form.MEMORY and (not divisible(acc) or asked.mebibytes <= 0):
            return False
        if self.whole or (self.parts and not divisible(acc)):
            return False
        if exclusive(acc, asked):
            return not self.parts and not any(self.units.values())
        return asked.mebibytes <= mebibytes(acc) - self.mebibytes


def tally_by_accelerator(holdings: Iterable[Holding]) -> dict[str, Tally]:
    """Return the sum of what is held, by accelerator."""
    found: dict[str, Tally] = {}
    heaps: dict[str, dict[int, list[tuple[int, int]]]] = {}
    for holding in holdings:
        name = holding.accelerator
        if holding.form is Form.MEMORY:  # joined once: there may be thousands
            found.setdefault(name, Tally())
            heaps.setdefault(name, {}).setdefault(unit_of(holding), []).extend(holding.units)
        else:
            found[name] = found.get(name, Tally()).plus(holding)
    for name, units in heaps.items():
        found[name] = replace(found[name], units={unit: union(spans) for unit, spans in units.items()})
    return found


def units_held(holdings: Iterable[Holding]) -> dict[Key, Spans]:
    """Return the units that are held, by accelerator, form and size."""
    heaps: dict[Key, list[tuple[int, int]]] = {}
    for holding in holdings:
        heaps.setdefault(key_of(holding), []).extend(holding.units)
    return {key: union(spans) for key, spans in heaps.items()}


def key_of(holding: Holding) -> Key:
    """Return what units of a holding may be compared with."""
    return holding.accelerator, holding.form, unit_of(holding)
