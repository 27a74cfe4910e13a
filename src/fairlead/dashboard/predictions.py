"""Models, and their predicted latency on every device of a fleet. Pure, but for reading a model's file."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from fairlead.catalog import Catalog
from fairlead.dashboard.answers import ModelDevices, Prediction
from fairlead.dashboard.row_types import DeviceRow, ModelRow, Row
from fairlead.errors import FairleadError
from fairlead.prediction import Estimate

if TYPE_CHECKING:
    from fairlead.estimate.knowledge import Knowledge
    from fairlead.estimate.query import Query

_CONFIDENCE: Final[dict[str, Literal["high", "medium", "low"]]] = {
    "high": "high",
    "medium": "medium",
    "low": "low",
}
_UNLISTED: Final = "it is not in the catalog: its speed is not known"


@dataclass(frozen=True, slots=True)
class ShownModel:
    """A model that can be predicted."""

    name: str
    source: str
    query: "Query"
    operators: int | None = None
    command: str = ""

    def row(self) -> ModelRow:
        """Return its row."""
        return ModelRow(key=self.name, name=self.name, source=self.source, operators=self.operators)


def read_models(paths: Iterable[str]) -> dict[str, ShownModel]:
    """Return the models of files, by name; AnalysisError names a file that cannot be read."""
    from fairlead.analyze import analyze  # noqa: PLC0415  # only where models are named
    from fairlead.estimate.query import Query  # noqa: PLC0415  # numpy

    shown: dict[str, ShownModel] = {}
    for path in paths:
        profile = analyze(path)
        name = os.path.basename(path)
        name = path if name in shown else name
        command = f"fairlead estimate {path} --on all"
        shown[name] = ShownModel(name, path, Query.of(profile), len(profile.operators), command)
    return shown


def device_models(rows: Iterable[Row]) -> dict[str, str]:
    """Return the models of a fleet's accelerators, with their names."""
    return {row.model: row.name for row in rows if isinstance(row, DeviceRow) and row.model}


def predict(
    model: ShownModel, devices: Mapping[str, str], catalog: Catalog, knowledge: "Knowledge"
) -> ModelDevices:
    """Return a model's predictions on these devices, the fastest first."""
    from fairlead.estimate.predict import estimate  # noqa: PLC0415  # numpy
    from fairlead.estimate.target import Target, target  # noqa: PLC0415

    targets: dict[str, Target] = {}
    unlisted: list[Prediction] = []
    for device, name in devices.items():
        try:
            targets[device] = target(device.partition("-mig-")[0], catalog)
        except FairleadError:
            unlisted.append(Prediction(key=device, name=name, why=_UNLISTED))
    estimates: Sequence[Estimate] = (
        estimate(model.query, list(targets.values()), knowledge) if targets else ()
    )
    rows = [
        prediction(device, devices[device], made) for device, made in zip(targets, estimates, strict=True)
    ]
    ordered = sorted((*rows, *unlisted), key=lambda row: (row.seconds is None, row.seconds or 0.0, row.key))
    return ModelDevices(model=model.name, rows=tuple(ordered), command=model.command)


def prediction(key: str, name: str, made: Estimate) -> Prediction:
    """Return an estimate as a row; the bar of its error is symmetric on a scale of ratios."""
    low = made.seconds**2 / made.p90 if made.seconds is not None and made.p90 else None
    known = made.runs is not None and made.seconds is not None
    return Prediction(
        key=key,
        name=name,
        runtime=made.runtime,
        precision=made.precision,
        seconds=made.seconds,
        low_seconds=low,
        p90_seconds=made.p90,
        memory_bytes=made.memory,
        energy_joules=made.joules,
        confidence=_CONFIDENCE.get(made.confidence, "low") if known else "unknown",
        why="; ".join((*made.reasons, *made.needs)),
        fits=made.runs is not False and made.fits,
    )
