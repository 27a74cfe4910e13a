"""Simulated runs that `fairlead simulate -o json` wrote, as rows and series: one for each policy."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairlead.dashboard.answers import SimulationAnswer, SimulationSeries
from fairlead.dashboard.row_types import Figure, SimulationRow
from fairlead.errors import ManifestError
from fairlead.manifest.files.text import read_one

_HINT: Final = "make one with: fairlead simulate ... -o json > FILE"
_TIME: Final = "at_s"
_UNITS: Final = {"percent": "%", "bytes": "B", "s": "s", "j": "J", "w": "W"}
"""By the end of a field's name."""
_FIGURES: Final = (
    *(("done", ""), ("running", ""), ("waiting", ""), ("refused", ""), ("makespan_s", "")),
    *(("wait_s", "mean"), ("wait_s", "p99"), ("completion_s", "mean"), ("allocation_percent", "mean")),
    *(("fragmentation_percent", "mean"), ("utilisation_percent", "mean"), ("preemptions", "")),
)
"""Fields of a policy's answer, and which of several values."""


def read_simulations(paths: Iterable[str]) -> dict[str, tuple[SimulationRow, SimulationAnswer]]:
    """Return the runs of files by their keys: the file's name and the policy."""
    found = {}
    for path in paths:
        where, document = read_one(path)
        if not isinstance(document, dict) or not isinstance(document.get("policies"), list):
            raise ManifestError(f"{where}: not the answer of a simulation", _HINT)
        for run in document["policies"]:
            if not isinstance(run, dict) or not isinstance(run.get("policy"), str):
                raise ManifestError(f"{where}: policies: not those of a simulation", _HINT)
            key = f"{os.path.basename(path)}/{run['policy']}"
            found[key] = _row(key, document, run), _answer(key, path, run)
    return found


def _row(key: str, document: Mapping[str, Any], run: Mapping[str, Any]) -> SimulationRow:
    figures = (_figure(run, name, part) for name, part in _FIGURES)
    return SimulationRow(
        key=key,
        name=str(document.get("trace", key)),
        policy=run["policy"],
        nodes=int(document.get("nodes") or 0),
        jobs=int(document.get("jobs") or 0),
        figures=tuple(figure for figure in figures if figure is not None),
    )


def _figure(run: Mapping[str, Any], name: str, part: str) -> Figure | None:
    """Return a figure; None: the answer has no such field."""
    value = run.get(name)
    if part:
        value = value.get(part) if isinstance(value, Mapping) else None
    if name not in run:
        return None
    label, unit = _named(name)
    return Figure(name=f"{label}, {part}" if part else label, value=_number(value), unit=unit)


def _named(name: str) -> tuple[str, str]:
    stem, _, end = name.rpartition("_")
    unit = _UNITS.get(end, "") if stem else ""
    return (stem if unit else name).replace("_", " "), unit


def _answer(key: str, path: str, run: Mapping[str, Any]) -> SimulationAnswer:
    series: Mapping[str, Any] = run.get("series") or {}
    times = [float(at) for at in series.get(_TIME) or ()]
    shown = []
    for name, values in series.items():
        if name != _TIME and isinstance(values, list) and len(values) == len(times):
            label, unit = _named(name)
            shown.append(SimulationSeries(name=label, unit=unit, values=[_number(value) for value in values]))
    return SimulationAnswer(
        key=key, times=times, series=tuple(shown), command=f"fairlead simulate ... -o json > {path}"
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
