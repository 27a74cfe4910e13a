"""Arrange measurements of one source as a table of devices x models."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairlead.errors import SettingsError
from fairlead.estimate.similar.device import DeviceTraits, words
from fairlead.estimate.similar.traits import Array, ModelTraits
from fairlead.evaluate.amounts import KnownAmounts
from fairlead.evaluate.data_sheets import DataSheets
from fairlead.evaluate.rows import Measurement

_BRACKETS: Final = re.compile(r"\[[^\]]*\]|\([^)]*\)")
_POWER_MODE: Final = re.compile(r"\bnvpmodel\s*=?\s*\S+|\bmaxn\b|\b[0-9]+ ?w\b|\bmode[ =]\S+")
_NOISE: Final = re.compile(r"[^a-z0-9+.]+")
_LARGEST: Final = 20_000_000
"""Cells of a table: about a gigabyte is needed for it."""
_SHARED_NOTE: Final = 3
"""A note that so many rows share, on the average, describes a configuration rather than a row."""


@dataclass(frozen=True, slots=True)
class Key:
    """What tells measured devices apart; the fact sheet's chip, runtime, precision, mode and link."""

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
    """The device behind each key: rows of one physical device never help to predict it."""
    models: tuple[ModelTraits, ...]
    families: tuple[str, ...]
    seconds: Array
    watts: Array


def tables(rows: Iterable[Measurement], sheets: DataSheets) -> list[LatencyTable]:
    """Return one table for each source, in the order in which they come."""
    groups: dict[str, list[Measurement]] = defaultdict(list)
    for row in rows:
        groups[row.source].append(row)
    known = KnownAmounts.of(row for found in groups.values() for row in found)
    return [table(name, found, sheets, known) for name, found in groups.items()]


def table(group: str, rows: Sequence[Measurement], sheets: DataSheets, known: KnownAmounts) -> LatencyTable:
    """Arrange the rows of one source; of measurements of one model on one key the median counts."""
    cells: dict[tuple[Key, tuple[str, str]], list[Measurement]] = defaultdict(list)
    for key, found in _rows_by_key(rows).items():
        for row in found:
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
    for (key, model), found in cells.items():
        place = places[0][key], places[1][model]
        seconds[place] = np.log(np.median([row.seconds for row in found]))
        powers = [row.watts for row in found if row.watts > 0]
        watts[place] = np.log(np.median(powers)) if powers else np.nan
    return LatencyTable(
        group=group,
        rows=len(rows),
        keys=tuple(keys),
        devices=tuple(describe(key, sheets) for key in keys),
        physical=tuple(physical(key.device) for key in keys),
        models=_models(models, rows, known),
        families=tuple(family(name) for name, _ in models),
        seconds=seconds,
        watts=watts,
    )


def describe(key: Key, sheets: DataSheets) -> DeviceTraits:
    """Return what the words of a key and the data sheet say of a device."""
    name = " ".join(part for part in (key.device, key.runtime, key.precision, key.mode) if part)
    sides = (key.device, key.runtime, f"{key.precision} {key.mode}", key.config)
    figures = sheets.read(key.device, key.runtime, key.precision)
    return DeviceTraits(name, tuple(words(side) for side in sides), figures.kind, figures.ops)


def physical(device: str) -> str:
    """Return the device's name without what is in brackets and without its power mode."""
    bare = _POWER_MODE.sub(" ", _BRACKETS.sub(" ", device.lower()))
    return " ".join(_NOISE.sub(" ", bare).split()) or device.lower()


def family(model: str) -> str:
    """Return the letters that a model's name begins with: `resnet` of `resnet50d`."""
    found = re.match(r"[^a-z]*([a-z]+)", model.lower())
    return found[1] if found else model.lower()


def _rows_by_key(rows: Sequence[Measurement]) -> dict[Key, list[Measurement]]:
    """Give every row its key: batch and note belong to it where they tell measurements of a model apart."""
    plain: dict[Key, list[Measurement]] = defaultdict(list)
    for row in rows:
        plain[Key(row.device, row.runtime, row.precision, row.mode)].append(row)
    keyed: dict[Key, list[Measurement]] = defaultdict(list)
    for key, found in plain.items():
        batches = Counter(
            (row.model, row.size) for row in {(r.model, r.size, r.batch): r for r in found}.values()
        )
        batched = max(batches.values()) > 1
        for row in found:
            mode = f"{key.mode} {row.batch:g}" if batched else key.mode
            keyed[Key(key.device, key.runtime, key.precision, mode)].append(row)
    for key, found in list(keyed.items()):
        if _note_is_configuration(found):
            del keyed[key]
            for row in found:
                keyed[Key(key.device, key.runtime, key.precision, key.mode, row.note)].append(row)
    return keyed


def _note_is_configuration(rows: Sequence[Measurement]) -> bool:
    notes = len({row.note for row in rows})
    models = len({(row.model, row.size) for row in rows})
    return len(rows) > models and notes > 1 and len(rows) >= _SHARED_NOTE * notes


def _models(
    names: Sequence[tuple[str, str]], rows: Sequence[Measurement], known: KnownAmounts
) -> tuple[ModelTraits, ...]:
    """Describe models by their names, and by amounts of the table itself or else of others."""
    amounts: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for name, value in row.amounts.items():
            amounts[row.model, row.size][name].append(value)
    found = []
    for model, size in names:
        own = {name: float(np.median(values)) for name, values in amounts[model, size].items()}
        about = words(model) | ({f"@{size}"} if size else set())
        found.append(ModelTraits(f"{model}@{size}", about, (known.amounts(model, size) | own,)))
    return tuple(found)
