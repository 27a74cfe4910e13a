"""Training steps in a table: what each is expected to take by its amounts, before any run on the device."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fairlead.estimate.similar.device import DeviceTraits
from fairlead.estimate.similar.traits import ModelTraits
from fairlead.evaluate.rows import Measurement
from fairlead.training.published import Expected, Steps, expected

_AMOUNTS: Final = ("macs", "params", "activations")


def expectation(
    device: DeviceTraits,
    models: Sequence[tuple[str, str]],
    traits: Sequence[ModelTraits],
    cells: Mapping[tuple[str, str], Sequence[Measurement]],
) -> Expected:
    """Return what the steps of all models take on a device that trains; nan without amounts or a batch.

    The batch of a step is part of the question; its seconds are not looked at.
    """
    rows = []
    for model, known in zip(models, traits, strict=True):
        batches = [row.batch for row in cells.get(model, ())]
        view = known.views[0] if known.views else {}
        batch = float(np.median(batches)) if batches else float("nan")
        rows.append(({name: view[name] for name in _AMOUNTS if name in view}, batch, model[1]))
    return expected(Steps.of(rows), [name for name, _ in models], device.name, device.ops)
