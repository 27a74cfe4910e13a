"""What is said of one model on one device, and what takes its place once the model has run."""

from collections.abc import Sequence
from math import log
from typing import Final, NamedTuple

from fairlead.calibration import Features, MeasuredRun, ObservedUse
from fairlead.estimate import observed_latency
from fairlead.estimate.calibrated import CalibratedFit
from fairlead.estimate.transfer import transfer
from fairlead.prediction import Z90
from fairlead.units import Seconds

_MEASURED: Final = "measured"


class RawEstimate(NamedTuple):
    """A prediction in numbers; a tuple, because a thousand are made at a time."""

    seconds: float
    p90: float
    memory: float
    spread: float
    """Of the logarithm of real times around predicted ones."""
    basis: str
    watts: float | None
    runtime: str


def apply_runs(
    figures: RawEstimate, model: Features, own: CalibratedFit, ran: Sequence[tuple[CalibratedFit, Seconds]]
) -> RawEstimate:
    """Put runs of this very model in the place of its prediction: here, or on devices like this one."""
    trial = own.trials.get(model.digest)
    if trial is not None and trial.measured is not None:
        return _apply_run(figures, trial.measured)
    found = transfer(model, own, ran)
    if found is None:
        return figures
    spread = log(found.p90 / found.mean) / Z90
    return figures._replace(seconds=found.mean, p90=found.p90, spread=spread, basis="similar")


def apply_observed_use(figures: RawEstimate, seen: ObservedUse) -> RawEstimate:
    """Draw a prediction toward what was seen in real use; memory that was once needed is needed."""
    measured = figures.memory if figures.basis == _MEASURED else 0
    peak = max(seen.peak_bytes or 0, measured) or figures.memory
    watts = seen.watts or figures.watts
    known = figures._replace(memory=peak, watts=watts, runtime=seen.setup.runtime)
    if seen.latency is None:
        return known
    seconds, p90 = observed_latency.correct(figures.seconds, figures.p90, seen.latency)
    if seen.latency.count < observed_latency.ENOUGH_LATENCIES:
        return known._replace(seconds=seconds, p90=p90)
    return known._replace(seconds=seconds, p90=p90, spread=0.0, basis=_MEASURED)


def _apply_run(figures: RawEstimate, run: MeasuredRun) -> RawEstimate:
    return figures._replace(
        seconds=run.seconds,
        p90=max(run.seconds, run.p90),
        memory=run.peak_bytes or figures.memory,
        watts=run.watts or figures.watts,
        spread=0.0,
        basis=_MEASURED,
    )
