"""The prediction of one model on one device, and the measurements that replace it once the model has run."""

from collections.abc import Sequence
from math import exp, log
from typing import Final, NamedTuple

from fairlead.calibration import Features, MeasuredRun, ObservedUse
from fairlead.estimate import observed_latency
from fairlead.estimate.calibrated import CalibratedFit
from fairlead.estimate.transfer import transfer
from fairlead.prediction import Z90
from fairlead.units import Seconds

_MEASURED: Final = "measured"


class RawEstimate(NamedTuple):
    """A prediction in numbers; a tuple, because predictions are made a thousand at a time."""

    seconds: float
    p90: float
    memory: float
    spread: float
    """Standard deviation of the logarithm of real times around predicted ones."""
    basis: str
    watts: float | None
    runtime: str
    doubt: str = ""
    """Why it is doubtful, beside its spread."""


def apply_runs(
    raw: RawEstimate, model: Features, own: CalibratedFit, measured: Sequence[tuple[CalibratedFit, Seconds]]
) -> RawEstimate:
    """Replace a prediction by runs of the same model: on this device, or else on similar ones."""
    trial = own.trials.get(model.digest)
    if trial is not None and trial.measured is not None:
        return _apply_run(raw, trial.measured)
    estimate = transfer(model, own, measured)
    if estimate is None:
        return raw
    spread = log(estimate.p90 / estimate.mean) / Z90
    return raw._replace(seconds=estimate.mean, p90=estimate.p90, spread=spread, basis="similar", doubt="")


def apply_observed_use(raw: RawEstimate, use: ObservedUse) -> RawEstimate:
    """Draw a prediction toward real use; the largest observed memory stays the memory that is needed."""
    measured = raw.memory if raw.basis == _MEASURED else 0
    peak = max(use.peak_bytes or 0, measured) or raw.memory
    watts = use.watts or raw.watts
    known = raw._replace(memory=peak, watts=watts, runtime=use.setup.runtime)
    if use.latency is None:
        return known
    seconds, p90 = observed_latency.correct(raw.seconds, raw.p90, use.latency)
    if use.latency.count < observed_latency.ENOUGH_LATENCIES:
        return known._replace(seconds=seconds, p90=p90)
    return known._replace(seconds=seconds, p90=p90, spread=0.0, basis=_MEASURED, doubt="")


def _apply_run(raw: RawEstimate, run: MeasuredRun) -> RawEstimate:
    return raw._replace(
        seconds=run.seconds,
        p90=max(run.seconds * exp(Z90 * run.spread), run.p90),
        memory=run.peak_bytes or raw.memory,
        watts=run.watts or raw.watts,
        spread=run.spread,
        basis=_MEASURED,
    )
