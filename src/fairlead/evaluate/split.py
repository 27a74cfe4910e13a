"""Split a table into known values and values to predict.

A method receives an `Exam` and nothing else. It holds rows of devices that are not tested, and the calibrated
models of the device that is; no measured value of a test row is in it, nor anything computed from one.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fairlead.estimate.similar.device import DeviceTraits
from fairlead.estimate.similar.library import MeasurementLibrary
from fairlead.estimate.similar.traits import Array, Columns, Mask
from fairlead.evaluate.table import LatencyTable
from fairlead.training.published import Expected
from fairlead.units import pluralize

FEWEST: Final = 3
"""The fewest models to test on a device; a device with fewer is left out, and the note says so."""


@dataclass(frozen=True, slots=True)
class Split:
    """A new device, or a device with new models."""

    device: int
    held_out: frozenset[str]
    """Physical devices about which nothing may be known; the device's own is one of them."""
    calibration: Columns
    """Models that were measured on the device."""
    test: Columns
    """Models to predict."""


@dataclass(frozen=True, slots=True)
class Exam:
    """Everything that a method may know."""

    device: DeviceTraits
    library: MeasurementLibrary
    """Rows of other devices."""
    columns: Columns
    """Models that were measured on the device, as columns of the library."""
    values: Array
    """Their logarithms."""
    test: Columns
    """Models to predict."""
    steps: Expected | None = None
    """What training steps of all models are expected to take; None where models only run."""


@dataclass(slots=True)
class Examiner:
    """Sets exams on a table: on its seconds, or on other values of the same shape."""

    table: LatencyTable
    values: Array
    times_steps: bool = False
    """Whether the values are seconds, of which there may be expectations."""
    _blank: MeasurementLibrary = field(init=False)
    _last: tuple[frozenset[str], MeasurementLibrary] | None = field(init=False, default=None)
    """Splits of one physical device follow one another, and share a library."""

    def __post_init__(self) -> None:
        models = self.table.models
        self._blank = MeasurementLibrary.of((), models, np.zeros((0, len(models))))

    def exam(self, split: Split) -> Exam:
        """Return the exam of a split."""
        if self.table.physical[split.device] not in split.held_out:
            raise ValueError("other rows of the new device are among those to learn from")
        if np.intersect1d(split.calibration, split.test).size:
            raise ValueError("a model is both calibrated and tested")
        own = self.values[split.device, split.calibration]
        device = self.table.devices[split.device]
        steps = self.table.steps[split.device] if self.table.steps and self.times_steps else None
        return Exam(device, self._without(split.held_out), split.calibration, own, split.test, steps)

    def _without(self, held_out: frozenset[str]) -> MeasurementLibrary:
        if self._last is None or self._last[0] != held_out:
            others = [index for index, name in enumerate(self.table.physical) if name not in held_out]
            known = [index for index in others if not np.isnan(self.values[index]).all()]
            devices = [self.table.devices[index] for index in known]
            self._last = held_out, self._blank.with_devices(devices, self.values[known])
        return self._last[1]


def draw_order(table: LatencyTable, seed: int) -> Columns:
    """Return all models in an order that the seed decides: the first K are a pack of K models."""
    return np.random.default_rng([seed, *table.group.encode()]).permutation(len(table.models))


def split_pack(order: Columns, measured: Mask, size: int) -> tuple[Columns, Columns]:
    """Split the models measured on a device into the first `size` of an order, and the others."""
    models = order[measured[order]]
    return models[:size], models[size:]


def leave_one_device_out(table: LatencyTable, measured: Mask, calibration: int, seed: int) -> list[Split]:
    """Take each physical device in turn as new; a key with too few models is left out."""
    order, splits = draw_order(table, seed), []
    for device in sorted(range(len(table.keys)), key=lambda index: table.physical[index]):
        pack, rest = split_pack(order, measured[device], calibration)
        if len(pack) == calibration and len(rest) >= FEWEST:
            splits.append(Split(device, frozenset([table.physical[device]]), pack, rest))
    return splits


def skipped_note(table: LatencyTable, tested: int, needed: int) -> str:
    """Return a note of how many devices could not be tested, and why."""
    few = len(table.keys) - tested
    have = "has" if few == 1 else "have"
    return f"{few} of {pluralize(len(table.keys), 'device')} {have} fewer than {needed} models" if few else ""
