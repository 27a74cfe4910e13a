"""Arrange measurements of one source as a table of devices x models."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairlead.errors import SettingsError
from fairlead.estimate.similar.device import DeviceTraits, words
from fairlead.estimate.similar.traits import Array, ModelTraits
from fairlead.evaluate.amounts import KnownAmounts
from fairlead.evaluate.data_sheets import DataSheets
from fairlead.evaluate.rows import TRAIN, Measurement
from fairlead.evaluate.training_steps import expectation
from fairlead.training.published import Expected

_BRACKETS: Final = re.compile(r"\[[^\]]*\]|\([^)]*\)")
_POWER_MODE: Final = re.compile(r"\bnvpmodel\s*=?\s*\S+|\bmaxn\b|\b[0-9]+ ?w\b|\bmode[ =]\S+")
_NOISE: Final = re.compile(r"[^a-z0-9+.]+")
_LARGEST: Final = 20_000_000
"""The most cells of a table: it needs about a gigabyte."""
_SHARED_NOTE: Final = 3
"""A note that this number of rows share, on average, describes a configuration rather than a row."""


@dataclass(frozen=True, slots=True)
class Key:
    """The identity of a measured device: chip, runtime, precision, mode and link."""

    device: str
    runtime: str
    precision: str
    mode: str
    config: str = ""


@dataclass(frozen=True, slots=True)
class LatencyTable:
    """All measurements of one source, as logarithms."""

    group: str
    rows: int
    keys: tuple[Key, ...]
    devices: tuple[DeviceTraits, ...]
    physical: tuple[str, ...]
    """The physical device of each key: its own rows never help to predict it."""
    models: tuple[ModelTraits, ...]
    families: tuple[str, ...]
    seconds: Array
    watts: Array
    steps: tuple[Expected | None, ...] = ()
    """By key, what training steps are expected to take; None where models only run."""


def tables(rows: Iterable[Measurement], sheets: DataSheets) -> list[LatencyTable]:
    """Return one table for each source, in the order of the file."""
    groups: dict[str, list[Measurement]] = defaultdict(list)
    for row in rows:
        groups[row.source].append(row)
    known = KnownAmounts.of(row for measurements in groups.values() for row in measurements)
    return [table(name, measurements, sheets, known) for name, measurements in groups.items()]


def table(group: str, rows: Sequence[Measurement], sheets: DataSheets, known: KnownAmounts) -> LatencyTable:
    """Arrange the rows of one source; of several measurements of a model on a key, the median counts."""
    cells: dict[tuple[Key, tuple[str, str]], list[Measurement]] = defaultdict(list)
    for key, measurements in _rows_by_key(rows).items():
        for row in measurements:
            cells[key, (row.model, row.size)].append(row)
    keys = sorted(
        {key for key, _ in cells},
        key=lambda key: (key.device, key.runtime, key.precision, key.mode, key.config),
    )
    models = sorted({model for _, model in cells})
    if len(keys) * len(models) > _LARGEST:
        size = f"{len(keys):,} devices x {len(models):,} models"
        raise SettingsError(f"source {group!r}: {size} is too large a table", "split it by source")
    places = (
        {key: index for index, key in enumerate(keys)},
        {model: index for index, model in enumerate(models)},
    )
    seconds, watts = np.full((2, len(keys), len(models)), np.nan)
    for (key, model), measurements in cells.items():
        place = places[0][key], places[1][model]
        seconds[place] = np.log(np.median([row.seconds for row in measurements]))
        powers = [row.watts for row in measurements if row.watts > 0]
        watts[place] = np.log(np.median(powers)) if powers else np.nan
    devices = tuple(describe(key, sheets) for key in keys)
    traits = _models(models, rows, known)
    return LatencyTable(
        group=group,
        rows=len(rows),
        keys=tuple(keys),
        devices=devices,
        physical=tuple(physical(key.device) for key in keys),
        models=traits,
        families=tuple(family(name) for name, _ in models),
        seconds=seconds,
        watts=watts,
        steps=_steps(keys, devices, models, traits, cells),
    )


def _steps(
    keys: Sequence[Key],
    devices: Sequence[DeviceTraits],
    models: Sequence[tuple[str, str]],
    traits: Sequence[ModelTraits],
    cells: Mapping[tuple[Key, tuple[str, str]], Sequence[Measurement]],
) -> tuple[Expected | None, ...]:
    """Return what training steps are expected to take, by key."""
    by_key: dict[Key, dict[tuple[str, str], Sequence[Measurement]]] = defaultdict(dict)
    for (key, model), measurements in cells.items():
        by_key[key][model] = measurements
    return tuple(
        expectation(device, models, traits, by_key[key]) if key.mode.startswith(TRAIN) else None
        for key, device in zip(keys, devices, strict=True)
    )


def describe(key: Key, sheets: DataSheets) -> DeviceTraits:
    """Return the traits of a device, from the words of its key and from its data sheet."""
    name = " ".join(part for part in (key.device, key.runtime, key.precision, key.mode) if part)
    sides = (key.device, key.runtime, f"{key.precision} {key.mode}", key.config)
    figures = sheets.read(key.device, key.runtime, key.precision)
    return DeviceTraits(name, tuple(words(side) for side in sides), figures.kind, figures.ops)


def physical(device: str) -> str:
    """Return the device's name without text in brackets and without its power mode."""
    bare = _POWER_MODE.sub(" ", _BRACKETS.sub(" ", device.lower()))
    return " ".join(_NOISE.sub(" ", bare).split()) or device.lower()


def family(model: str) -> str:
    """Return the leading letters of a model's name: `resnet` of `resnet50d`."""
    match = re.match(r"[^a-z]*([a-z]+)", model.lower())
    return match[1] if match else model.lower()


def _rows_by_key(rows: Sequence[Measurement]) -> dict[Key, list[Measurement]]:
    """Return rows by key; batch and note are part of the key where they distinguish runs of a model."""
    plain: dict[Key, list[Measurement]] = defaultdict(list)
    for row in rows:
        plain[Key(row.device, row.runtime, row.precision, row.mode)].append(row)
    keyed: dict[Key, list[Measurement]] = defaultdict(list)
    for key, measurements in plain.items():
        batches = Counter(
            (row.model, row.size) for row in {(r.model, r.size, r.batch): r for r in measurements}.values()
        )
        batched = max(batches.values()) > 1
        for row in measurements:
            mode = f"{key.mode} {row.batch:g}" if batched else key.mode
            keyed[Key(key.device, key.runtime, key.precision, mode)].append(row)
    for key, measurements in list(keyed.items()):
        if _note_is_configuration(measurements):
            del keyed[key]
            for row in measurements:
                keyed[Key(key.device, key.runtime, key.precision, key.mode, row.note)].append(row)
    return keyed


def _note_is_configuration(rows: Sequence[Measurement]) -> bool:
    notes = len({row.note for row in rows})
    models = len({(row.model, row.size) for row in rows})
    return len(rows) > models and notes > 1 and len(rows) >= _SHARED_NOTE * notes


def _models(
    names: Sequence[tuple[str, str]], rows: Sequence[Measurement], known: KnownAmounts
) -> tuple[ModelTraits, ...]:
    """Describe models by their names, and by amounts of this table or else of others."""
    amounts: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for name, value in row.amounts.items():
            amounts[row.model, row.size][name].append(value)
    traits = []
    for model, size in names:
        own = {name: float(np.median(values)) for name, values in amounts[model, size].items()}
        model_words = words(model) | ({f"@{size}"} if size else set())
        traits.append(ModelTraits(f"{model}@{size}", model_words, (known.amounts(model, size) | own,)))
    return tuple(traits)
