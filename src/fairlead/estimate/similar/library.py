"""The library of measurements: how long known models took on known devices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairlead.estimate.similar.device import DeviceTraits
from fairlead.estimate.similar.traits import Array, ModelTraits, TraitColumns, TraitMatrix, TraitScale

_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class MeasurementLibrary:
    """A table of devices x models. Quantities are logarithms: of seconds, or of watts."""

    devices: tuple[DeviceTraits, ...]
    models: tuple[ModelTraits, ...]
    rows: Array
    """Devices x models, nan where nothing was measured; the last row is the average device."""
    levels: Array
    """How slow each device is on the whole, relative to the average device."""
    trait_matrix: TraitMatrix
    vocabulary: TraitColumns
    scale: TraitScale | None
    """The scale of the measured models; None without any."""
    _columns: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, devices: Sequence[DeviceTraits], models: Sequence[ModelTraits], values: Array
    ) -> "MeasurementLibrary":
        """Build a library; of models of one name the first counts."""
        vocabulary = TraitColumns.of(models)
        columns: dict[str, int] = {}
        for index, model in enumerate(models):
            columns.setdefault(model.name, index)
        trait_matrix = vocabulary.trait_matrix(models)
        empty = cls((), tuple(models), values[:0], values[:0, 0], trait_matrix, vocabulary, None, columns)
        return empty.with_devices(devices, values)

    def column(self, name: str) -> int | None:
        """Return the column of a model; None where the library does not have it."""
        return self._columns.get(name)

    def with_devices(self, devices: Sequence[DeviceTraits], values: Array) -> "MeasurementLibrary":
        """Return a library of the same models for these devices and their values."""
        levels, average = _device_and_model_parts(values)
        known = np.flatnonzero(~np.isnan(average))
        scale = TraitScale.of(self.trait_matrix.take(known)) if len(known) else None
        rows = np.vstack([values, average])
        return replace(self, devices=tuple(devices), rows=rows, levels=levels, scale=scale)

    def with_models(self, models: Iterable[ModelTraits]) -> "MeasurementLibrary":
        """Return the library with empty columns for models that it does not have."""
        new = list({model.name: model for model in models if model.name not in self._columns}.values())
        if not new:
            return self
        empty = np.full((len(self.devices), len(new)), np.nan)
        return MeasurementLibrary.of(self.devices, (*self.models, *new), np.hstack([self.rows[:-1], empty]))


def _device_and_model_parts(values: Array) -> tuple[Array, Array]:
    """Split values into a device's part and a model's part, whose sum they are taken to be."""
    known = ~np.isnan(values)
    devices = np.zeros(len(values))
    models = np.zeros(values.shape[1])
    for _ in range(_ROUNDS):
        models = np.where(known, values - devices[:, None], 0).sum(0) / np.maximum(known.sum(0), 1)
        devices = np.where(known, values - models, 0).sum(1) / np.maximum(known.sum(1), 1)
    return devices, np.where(known.any(0), models, np.nan)
