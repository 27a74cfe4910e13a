"""What runs on a device say of it: seconds, joules and memory for each amount of work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from fairlead.calibration import Calibration, MeasuredRun, Setup, Trial
from fairlead.catalog import Catalog
from fairlead.catalog.device import PRECISIONS
from fairlead.estimate import feasible, memory, nonnegative, roofline
from fairlead.estimate.amounts import Array, amounts
from fairlead.estimate.speeds import DeviceSpeed, runtimes, speed
from fairlead.estimate.target import Target, target_of_setup
from fairlead.units import Ops

STRENGTH: Final = 0.05
"""How much the data sheet's proportions count beside the runs: they decide what the runs leave open."""
_POWER_STRENGTH: Final = 0.01
"""The same for joules: watts differ by up to four times between kinds of work, so that less is usual."""
_NEW_MODEL_FACTOR: Final = 2.0
"""Errors at new models are larger than at those that were fitted, by this."""
_LEAST_SPREAD: Final = 0.06
"""No spread is smaller: runs of one model differ by as much from day to day."""
_LEAST_WATTS: Final = 1e-3
_MOST_WATTS: Final = 1e5
"""What a device may take."""
_SHORTEST: Final = 1e-9
_LONGEST: Final = 1e7
"""Seconds that a run may take."""
_SLOWEST: Final = 1e3
_FASTEST: Final = 1e18
"""Operations per second that a device may have."""
_ENOUGH_MODELS: Final = 10
"""So many models tell all kinds of work apart; the data sheet's spread counts for those that are missing."""


@dataclass(frozen=True, slots=True)
class BusyPower:
    """What a busy device takes."""

    joules: Array
    """Of each amount."""
    least: float
    most: float
    """Watts that were ever seen."""

    def watts(self, work: Array, seconds: float) -> float:
        """Return the power of a model that takes so long, within what the device was seen to take."""
        return min(self.most, max(self.least, float(self.joules @ work) / seconds))


@dataclass(frozen=True, slots=True)
class CalibratedFit:
    """A setup that was calibrated."""

    setup: Setup
    target: Target
    """As the catalog knows it."""
    times: Array
    """Seconds of each amount."""
    data_sheet_times: Array
    """The same by the data sheet."""
    rate: Ops
    """Operations per second that the data sheet promises."""
    memory: Array
    """Bytes of each amount of memory."""
    spread: float
    """Of the logarithm of real times around predicted ones."""
    jitter: float
    """By how much, in logarithms, the ninth decile of runs of one model lies above the usual one."""
    power: BusyPower | None = None
    """None where it was not measured."""
    trials: Mapping[str, Trial] = field(default_factory=dict)
    """By the digest of the model."""


def fit(calibration: Calibration, catalog: Catalog) -> CalibratedFit | None:
    """Return what a calibration says; None where it says nothing or its device is not known."""
    setup, done = calibration.setup, _plausible_trials(calibration)
    target = target_of_setup(setup, catalog)
    if target is None or not done or not _is_plausible(setup):
        return None
    rate = _rate(target, setup.precision)
    [sheet] = roofline.coefficients([target], [rate])
    design = np.array([amounts(trial.features).time for trial in done])
    found = [trial.measured for trial in done if trial.measured]
    seconds = np.array([each.seconds for each in found])
    times = nonnegative.fit_near(design, seconds, sheet, STRENGTH)
    power = _power(design, found, times)
    return CalibratedFit(
        setup=setup,
        target=target,
        times=times,
        data_sheet_times=sheet,
        rate=rate,
        memory=memory.fit(done, _typical_memory(target, setup.runtime)),
        spread=_spread(np.log(design @ times / seconds), speed(target.kind, target.vendor, target.family)),
        jitter=float(np.median([np.log(max(1.0, each.p90 / each.seconds)) for each in found])),
        power=power,
        trials={trial.features.digest: trial for trial in done},
    )


def _is_plausible(setup: Setup) -> bool:
    """Say whether a setup could be: whoever may write profiles may write anything."""
    rate = setup.effective_ops or _SLOWEST
    return setup.precision in PRECISIONS and _SLOWEST <= rate <= _FASTEST


def _plausible_trials(calibration: Calibration) -> list[Trial]:
    """Return each model once, without times that no run can have."""
    done = {trial.features.digest: trial for trial in calibration.done}
    times = ((trial, trial.measured.seconds) for trial in done.values() if trial.measured)
    return [_without_implausible_power(trial) for trial, seconds in times if _SHORTEST <= seconds <= _LONGEST]


def _without_implausible_power(trial: Trial) -> Trial:
    """Leave out a power that no device has."""
    found = trial.measured
    if found is None or found.watts is None or _LEAST_WATTS <= found.watts <= _MOST_WATTS:
        return trial
    return replace(trial, measured=replace(found, watts=None))


def _rate(target: Target, precision: str) -> Ops:
    """Return its rate; where it has none, one that is as good as any: the runs set the level."""
    return feasible.rate(precision, target.rates) or max(target.rates.values(), default=Ops(1e12))


def _typical_memory(target: Target, name: str) -> Array:
    known = runtimes()
    usual = speed(target.kind, target.vendor, target.family).runtimes[0]
    return np.array(known.get(name, known[usual]).memory)


def _spread(residuals: Array, given: DeviceSpeed) -> float:
    """Return how far predictions for new models will be off."""
    missing = max(0.0, 1 - len(residuals) / _ENOUGH_MODELS)
    fitted = max(_LEAST_SPREAD, _NEW_MODEL_FACTOR * float(np.sqrt(np.mean(residuals**2))))
    return float(np.hypot(fitted, missing * given.spread))


def _power(design: Array, found: Sequence[MeasuredRun], times: Array) -> BusyPower | None:
    """Return the joules of each amount: near what they would be if every kind of work took the same power."""
    rows = [(row, each.seconds, each.watts) for row, each in zip(design, found, strict=True) if each.watts]
    if not rows:
        return None
    watts = np.array([each for *_, each in rows])
    energy = np.array([seconds * each for _, seconds, each in rows])
    usual = times * float(np.median(watts))
    joules = nonnegative.fit_near(np.array([row for row, *_ in rows]), energy, usual, _POWER_STRENGTH)
    return BusyPower(joules, float(watts.min()), float(watts.max()))
