"""Training steps of tables that have amounts of work and no graph: what to expect, and what runs teach.

The expectation is fitted on published steps (`steps.toml`). Runs on the device shift its level.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.compat import toml

Array = NDArray[np.float64]

FEATURES: Final = (
    "constant",
    "macs",
    "activations",
    "params_per_batch",
    "side",
    "batch",
    "macs_per_activation_2",
    "macs_per_activation_activations",
    "activations_2",
)
"""Logarithms of amounts and of their ratios, and products of them."""
_LETTERS: Final = re.compile(r"[^a-z]+")
_TAG: Final = re.compile(r"\.[a-z].*")
_NUMBERS: Final = re.compile(r"[0-9]+")
_GAIN: Final = 0.8
"""A device of e times the operations takes e ** -0.8 of the time of a step."""
_KNOWN_LEVEL: Final = 30.0
"""The expected level counts as much as this number of runs on the device that it was fitted on."""
_OTHER_LEVEL: Final = 0.5
"""The same on other devices."""
_QUANTILE: Final = 0.4
"""Of the errors of runs: relative errors weigh a prediction that is too long more than one too short."""
_OTHER_SPREAD: Final = 0.45
"""How far other devices and frameworks are from the expectation before any run."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Training steps by their amounts, one in each row; nan where an amount is not known."""

    macs: Array
    params: Array
    activations: Array
    batch: Array
    side: Array

    @classmethod
    def of(cls, rows: Sequence[tuple[Mapping[str, float], float, str]]) -> "Steps":
        """Return steps from amounts, batch and size of the input, as tables write it."""
        macs, params, activations = (
            np.array([amounts.get(name, np.nan) for amounts, _, _ in rows], dtype=np.float64)
            for name in ("macs", "params", "activations")
        )
        batch = np.array([batch for _, batch, _ in rows], dtype=np.float64)
        side = np.array([_side(size) for _, _, size in rows], dtype=np.float64)
        return cls(macs, params, activations, batch, side)


@dataclass(frozen=True, slots=True)
class Expected:
    """What steps are expected to take on a device, before any run there."""

    logs: Array
    """Of the seconds of one sample."""
    spread: float
    is_known: bool
    """Whether the expectation was fitted on this device."""


def step_features(steps: Steps) -> Array:
    """Return the features of steps, in the order of FEATURES."""
    macs, activations = np.log(steps.macs / 1e9), np.log(steps.activations / 1e6)
    params, batch = np.log(steps.params / 1e6), np.log(steps.batch)
    ratio = macs - activations
    columns = (
        np.ones(len(macs)),
        macs,
        activations,
        params - batch,
        np.log(steps.side / 224),
        batch,
        ratio**2,
        ratio * activations,
        activations**2,
    )
    return np.column_stack(columns)


def expected(steps: Steps, models: Sequence[str], device: str, ops: float | None) -> Expected:
    """Return what steps of models are expected to take; `device` is everything that describes the device."""
    table = _table()
    layout = layout_of(device)
    fitted: Mapping[str, float] = table["layout"][layout]
    logs = step_features(steps) @ np.array([fitted[name] for name in FEATURES])
    place = 1 if layout == "nhwc" else 0
    offsets: Mapping[str, Sequence[float]] = table["words"]
    logs = logs + np.array(
        [sum(offsets.get(word, _NONE)[place] for word in name_words(name)) for name in models]
    )
    is_known = str(table["device"]).lower() in device.lower()
    if ops and not is_known:
        logs = logs - _GAIN * np.log(ops / float(table["ops"]))
    return Expected(logs, fitted["spread"] if is_known else _OTHER_SPREAD, is_known)


_NONE: Final = (0.0, 0.0)


def shifted(expectation: Expected, runs: Sequence[int], values: Array) -> tuple[Array, Array]:
    """Return logarithms and spreads of all steps, after some ran: their places, and logarithms of seconds."""
    errors = values - expectation.logs[np.asarray(runs, dtype=np.intp)]
    errors = errors[np.isfinite(errors)]
    prior = _KNOWN_LEVEL if expectation.is_known else _OTHER_LEVEL
    level = 0.0
    if len(errors):
        level = float(np.quantile(errors, _QUANTILE)) * len(errors) / (len(errors) + prior)
    trust = len(errors) / (len(errors) + 1)
    usual = float(_table()["layout"]["nchw"]["spread"])
    spread = expectation.spread if expectation.is_known else (1 - trust) * expectation.spread + trust * usual
    return expectation.logs + level, np.full(len(expectation.logs), spread)


def layout_of(device: str) -> str:
    """Return the layout of images that a runtime's name tells: channels first unless it says otherwise."""
    return "nhwc" if re.search(r"nhwc|channels.last", device.lower()) else "nchw"


@cache
def name_words(model: str) -> frozenset[str]:
    """Return the words of a model's name: families, and what names of variants tell."""
    return frozenset(word for word in _LETTERS.split(_TAG.sub("", model.lower())) if len(word) > 1)


def _side(size: str) -> float:
    return max(map(float, _NUMBERS.findall(size)), default=224.0)


@cache
def _table() -> Mapping[str, Any]:
    return toml.loads(files(__package__).joinpath("steps.toml").read_text(encoding="utf-8"))
