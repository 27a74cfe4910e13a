"""The sum of holdings per accelerator, so that a check of free memory costs the same for any number."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fairlead.inventory import Accelerator
from fairlead.offer import Form, Holding
from fairlead.publish.parts import divisible, exclusive, mebibytes, unit_of
from fairlead.publish.spans import Spans, count, minus, union

Key = tuple[str, Form, int]
"""An accelerator, a form, and the size of a unit in MiB; 0 for holdings without units."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The sum of what is held of one accelerator."""

    whole: int = 0
    """The number of holdings of all of it."""
    parts: int = 0
    """The number of claims that hold part of its memory."""
    claimed: int = 0
    """MiB that these claims hold."""
    units: Mapping[int, Spans] = field(default_factory=dict)
    """By the MiB of a unit, the numbered units that containers hold."""

    @property
    def mebibytes(self) -> int:
        """The memory that is held in parts, in MiB."""
        return self.claimed + sum(unit * count(spans) for unit, spans in self.units.items())

    def plus(self, holding: Holding) -> "Tally":
        """Return the sum with one more holding; a unit with two holders counts once."""
        if holding.form is Form.MEMORY:
            unit = unit_of(holding)
            spans = union((*self.units.get(unit, ()), *holding.units))
            return replace(self, units={**self.units, unit: spans})
        if holding.form is Form.WHOLE or not holding.mebibytes:
            return replace(self, whole=self.whole + 1)
        return replace(self, parts=self.parts + 1, claimed=self.claimed + holding.mebibytes)

    def touches(self, holding: Holding) -> bool:
        """Say whether a container already holds some of the requested units."""
        if holding.form is Form.WHOLE:
            return self.whole > 0
        return minus(holding.units, self.units.get(unit_of(holding), ())) != holding.units

    def admits(self, acc: Accelerator, requested: Holding) -> bool:
        """Say whether a holding is possible beside the existing ones."""
        if requested.form is Form.MEMORY and (not divisible(acc) or requested.mebibytes <= 0):
            return False
        if self.whole or (self.parts and not divisible(acc)):
            return False
        if exclusive(acc, requested):
            return not self.parts and not any(self.units.values())
        return requested.mebibytes <= mebibytes(acc) - (0 if requested.by_use else self.mebibytes)


def tally_by_accelerator(holdings: Iterable[Holding]) -> dict[str, Tally]:
    """Return the sum of holdings, by accelerator."""
    tallies: dict[str, Tally] = {}
    spans_by_unit: dict[str, dict[int, list[tuple[int, int]]]] = {}
    for holding in holdings:
        name = holding.accelerator
        if holding.form is Form.MEMORY:  # merged once at the end: there may be thousands
            tallies.setdefault(name, Tally())
            spans_by_unit.setdefault(name, {}).setdefault(unit_of(holding), []).extend(holding.units)
        else:
            tallies[name] = tallies.get(name, Tally()).plus(holding)
    for name, units in spans_by_unit.items():
        tallies[name] = replace(tallies[name], units={unit: union(spans) for unit, spans in units.items()})
    return tallies


def units_held(holdings: Iterable[Holding]) -> dict[Key, Spans]:
    """Return the units that are held, by accelerator, form and size."""
    spans_by_key: dict[Key, list[tuple[int, int]]] = {}
    for holding in holdings:
        spans_by_key.setdefault(key_of(holding), []).extend(holding.units)
    return {key: union(spans) for key, spans in spans_by_key.items()}


def key_of(holding: Holding) -> Key:
    """Return the key under which units of a holding are comparable."""
    return holding.accelerator, holding.form, unit_of(holding)
