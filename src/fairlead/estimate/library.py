"""The library: how long known models took on known devices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairlead.estimate.device import Device
from fairlead.estimate.traits import Array, Columns, Scale, Sheet, Traits, Vocabulary


@dataclass(frozen=True, slots=True)
class Library:
    """A table of devices x models. Quantities are logarithms: of seconds, or of watts."""

    devices: tuple[Device, ...]
    models: tuple[Traits, ...]
    values: Array
    """Devices x models; nan where nothing was measured."""
    sheet: Sheet
    vocabulary: Vocabulary
    scale: Scale | None
    """What is usual among the models that were measured; None while none was."""
    _columns: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, devices: Sequence[Device], models: Sequence[Traits], values: Array) -> "Library":
        """Make a library; of models of one name the first one counts."""
        vocabulary = Vocabulary.of(models)
        columns: dict[str, int] = {}
        for index, model in enumerate(models):
            columns.setdefault(model.name, index)
        shaped = np.asarray(values, dtype=np.float64).reshape(len(devices), len(models))
        sheet = vocabulary.sheet(models)
        return cls(tuple(devices), tuple(models), shaped, sheet, vocabulary, _scale(sheet, shaped), columns)

    def column(self, name: str) -> int | None:
        """Return where a model stands, if it is known."""
        return self._columns.get(name)

    def including(self, models: Iterable[Traits]) -> "Library":
        """Return the library with columns, as yet empty, for models that it does not know."""
        new = list({model.name: model for model in models if model.name not in self._columns}.values())
        if not new:
            return self
        empty = np.full((len(self.devices), len(new)), np.nan)
        return Library.of(self.devices, (*self.models, *new), np.hstack([self.values, empty]))

    def holding(self, devices: Columns, values: Array) -> "Library":
        """Return a library of some of its devices and of what is left of their values."""
        chosen = tuple(self.devices[index] for index in devices)
        return replace(self, devices=chosen, values=values, scale=_scale(self.sheet, values))


def _scale(sheet: Sheet, values: Array) -> Scale | None:
    known = np.flatnonzero((~np.isnan(values)).any(0))
    return Scale.of(sheet.take(known)) if len(known) else None
