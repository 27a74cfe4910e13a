"""Fit a calibrated device: the seconds, joules and memory that each amount of work takes on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from fairlead.calibration import Calibration, MeasuredRun, Setup, Trial, with_date
from fairlead.catalog import Catalog
from fairlead.catalog.device import PRECISIONS
from fairlead.estimate import feasible, memory, nonnegative, roofline
from fairlead.estimate.amounts import Array, amounts
from fairlead.estimate.speeds import DeviceSpeed, runtimes
from fairlead.estimate.target import Target, target_of_setup
from fairlead.units import Ops

STRENGTH: Final = 0.05
"""Weight of the data sheet's proportions beside the runs: they decide what the runs leave open."""
_POWER_STRENGTH: Final = 0.01
"""The same for joules: watts differ by up to four times between kinds of work, so the prior counts less."""
_NEW_MODEL_FACTOR: Final = 2.0
"""Errors at new models are larger than at the fitted ones by this factor."""
_LEAST_SPREAD: Final = 0.06
"""No spread is smaller: runs of one model differ by this much from day to day."""
_LEAST_WATTS: Final = 1e-3
_MOST_WATTS: Final = 1e5
"""Bounds of a device's power."""
_SHORTEST: Final = 1e-9
_LONGEST: Final = 1e7
"""Bounds of a run's duration in seconds."""
_SLOWEST: Final = 1e3
_FASTEST: Final = 1e18
"""Bounds of a device's operations per second."""
ENOUGH_MODELS: Final = 10
"""This number of models tells all kinds of work apart; the data sheet's spread stands in for missing ones."""


@dataclass(frozen=True, slots=True)
class BusyPower:
    """The power of a busy device."""

    joules: Array
    """Joules of each amount."""
    least: float
    most: float
    """The least and the most watts measured."""

    def watts(self, work: Array, seconds: float) -> float:
        """Return the power of a model that takes `seconds`, within the range measured on the device."""
        return min(self.most, max(self.least, float(self.joules @ work) / seconds))


@dataclass(frozen=True, slots=True)
class CalibratedFit:
    """The fit of one calibrated setup."""

    setup: Setup
    target: Target
    """The device as the catalog describes it."""
    times: Array
    """Seconds of each amount."""
    data_sheet_times: Array
    """The same by the data sheet."""
    rate: Ops
    """Operations per second that the data sheet promises."""
    memory: Array
    """Bytes of each amount of memory."""
    spread: float
    """Standard deviation of the logarithm of real times around predicted ones."""
    jitter: float
    """How far, in logarithms, the ninth decile of runs of one model lies above the typical run."""
    runs: Array
    """The work of the models that ran."""
    seconds: Array
    """How long they took."""
    power: BusyPower | None = None
    """None where power was not measured."""
    trials: Mapping[str, Trial] = field(default_factory=dict)
    """By the digest of the model."""

    @property
    def level(self) -> float:
        """How long the models that ran take, over what the data sheet says."""
        return float(np.exp(np.median(np.log(self.seconds / (self.runs @ self.data_sheet_times)))))


def fit(calibration: Calibration, catalog: Catalog) -> CalibratedFit | None:
    """Return the fit of a calibration; None without a plausible trial or where the device is not known."""
    setup, trials = calibration.setup, _plausible_trials(calibration)
    target = target_of_setup(setup, catalog)
    if target is None or not trials or not _is_plausible(setup):
        return None
    rate = _rate(target, setup.precision)
    [data_sheet_times] = roofline.coefficients([target], [rate])
    design = np.array([amounts(trial.features).time for trial in trials])
    runs = [trial.measured for trial in trials if trial.measured]
    seconds = np.array([run.seconds for run in runs])
    times = nonnegative.fit_near(design, seconds, data_sheet_times, STRENGTH)
    power = _power(design, runs, times)
    return CalibratedFit(
        setup=setup,
        target=target,
        times=times,
        data_sheet_times=data_sheet_times,
        rate=rate,
        memory=memory.fit(trials, _typical_memory(target, setup.runtime)),
        spread=float(np.hypot(_spread(np.log(design @ times / seconds), target.speed), _unrest(runs))),
        jitter=float(np.median([np.log(max(1.0, run.p90 / run.seconds)) for run in runs])),
        runs=design,
        seconds=seconds,
        power=power,
        trials={trial.features.digest: trial for trial in trials},
    )


def _is_plausible(setup: Setup) -> bool:
    """Say whether a setup is possible: a profile may hold any value that its writer chose."""
    rate = setup.effective_ops or _SLOWEST
    return setup.precision in PRECISIONS and _SLOWEST <= rate <= _FASTEST


def _plausible_trials(calibration: Calibration) -> list[Trial]:
    """Return the trial of each model once, without times that no run can have."""
    trials = {trial.features.digest: with_date(trial, calibration.made) for trial in calibration.done}
    times = ((trial, trial.measured.seconds) for trial in trials.values() if trial.measured)
    return [_without_implausible_power(trial) for trial, seconds in times if _SHORTEST <= seconds <= _LONGEST]


def _without_implausible_power(trial: Trial) -> Trial:
    """Return the trial without a power that no device has."""
    run = trial.measured
    if run is None or run.watts is None or _LEAST_WATTS <= run.watts <= _MOST_WATTS:
        return trial
    return replace(trial, measured=replace(run, watts=None))


def _rate(target: Target, precision: str) -> Ops:
    """Return the rate of a target; where it has none, any other rate serves: the runs set the level."""
    return feasible.rate(precision, target.rates) or max(target.rates.values(), default=Ops(1e12))


def _typical_memory(target: Target, name: str) -> Array:
    known = runtimes()
    runtime = target.speed.runtimes[0]
    return np.array(known.get(name, known[runtime]).memory)


def _spread(residuals: Array, device: DeviceSpeed) -> float:
    """Return the expected error of predictions for new models."""
    missing = max(0.0, 1 - len(residuals) / ENOUGH_MODELS)
    fitted = max(_LEAST_SPREAD, _NEW_MODEL_FACTOR * float(np.sqrt(np.mean(residuals**2))))
    return float(np.hypot(fitted, missing * device.spread))


def _unrest(runs: Sequence[MeasuredRun]) -> float:
    """Return how far all runs together may be off: what disturbs one run of a machine disturbs the others."""
    return float(np.median([run.spread for run in runs]))


def _power(design: Array, runs: Sequence[MeasuredRun], times: Array) -> BusyPower | None:
    """Fit the joules of each amount, near those that the same power for every kind of work would give."""
    rows = [(row, run.seconds, run.watts) for row, run in zip(design, runs, strict=True) if run.watts]
    if not rows:
        return None
    watts = np.array([power for *_, power in rows])
    energy = np.array([seconds * power for _, seconds, power in rows])
    typical = times * float(np.median(watts))
    joules = nonnegative.fit_near(np.array([row for row, *_ in rows]), energy, typical, _POWER_STRENGTH)
    return BusyPower(joules, float(watts.min()), float(watts.max()))
