"""Knowledge beyond data sheets: calibrations, and models observed in real use."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.calibration import Calibration, ObservedUse, Setup, merge_observed, setup_id
from fairlead.catalog import Catalog
from fairlead.estimate import observed_latency
from fairlead.estimate.calibrated import ENOUGH_MODELS, CalibratedFit, fit
from fairlead.estimate.target import Target
from fairlead.units import Ops, Seconds

_PLACEHOLDER_RATE: Final = 1e12
"""Any rate serves where runs set the level."""
_TOLERANCE: Final = 0.1
"""Rates, power limits and links that differ by less count as equal."""

Fitting = Callable[[Calibration, Catalog], CalibratedFit | None]


class FitCache:
    """A cache of fits: a fit takes long, and of many calibrations one at a time changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Calibration, CalibratedFit | None]] = {}

    def __call__(self, calibration: Calibration, catalog: Catalog) -> CalibratedFit | None:
        """Return the fit of a calibration, from the cache where the calibration is unchanged."""
        key = setup_id(calibration.setup, calibration.host)
        known = self._known.get(key)
        if known is None or known[0] != calibration:
            known = self._known[key] = (calibration, fit(calibration, catalog))
        return known[1]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All measurements that predictions may use."""

    fitted: tuple[CalibratedFit, ...] = ()
    by_device: Mapping[str, tuple[CalibratedFit, ...]] = field(default_factory=dict)
    observed: Mapping[tuple[str, str], tuple[ObservedUse, ...]] = field(default_factory=dict)
    """By a model's digest and the catalog id of the device."""

    @classmethod
    def of(
        cls,
        calibrations: Iterable[Calibration],
        catalog: Catalog,
        observed: Iterable[ObservedUse] = (),
        fitting: Fitting = fit,
    ) -> "Knowledge":
        """Learn from calibrations and real use; devices that are not in the catalog are skipped."""
        results = [fitting(calibration, catalog) for calibration in calibrations]
        fitted = tuple(result for result in results if result is not None)
        by_device: dict[str, tuple[CalibratedFit, ...]] = {}
        for fit_ in fitted:
            by_device[fit_.setup.device] = (*by_device.get(fit_.setup.device, ()), fit_)
        uses: dict[tuple[str, str], tuple[ObservedUse, ...]] = {}
        for use in observed:
            key = (use.digest, use.setup.device)
            uses[key] = (*uses.get(key, ()), use)
        return cls(fitted, by_device, uses)

    def rates(self, target: Target) -> Mapping[str, Ops]:
        """Return the rates of a device; where the catalog has none, the rates of its calibrations."""
        if target.rates:
            return target.rates
        calibrated = self.by_device.get(target.device, ())
        return {
            fitted.setup.precision: Ops(fitted.setup.effective_ops or _PLACEHOLDER_RATE)
            for fitted in calibrated
        }

    def own_fit(self, target: Target, precision: str) -> CalibratedFit | None:
        """Return the calibration of the target itself: the whole device, in the same mode."""
        known = self.by_device.get(target.device, ())
        matching = [fitted for fitted in known if _setup_matches(fitted.setup, target, precision)]
        return max(matching, key=_rank, default=None)

    def observed_use(self, digest: str, target: Target, precision: str) -> ObservedUse | None:
        """Return the real use of a model on the target itself, merged over all machines."""
        merged: ObservedUse | None = None
        for use in self.observed.get((digest, target.device), ()):
            if _setup_matches(use.setup, target, precision):
                merged = use if merged is None else merge_observed(merged, use)
        return merged

    def measured_times(self, digest: str) -> list[tuple[CalibratedFit, Seconds]]:
        """Return the calibrated setups on which a model ran, in a trial or often in use, and its times."""
        times = ((fitted, self._measured_time(digest, fitted)) for fitted in self.fitted)
        return [(fitted, seconds) for fitted, seconds in times if seconds is not None]

    def _measured_time(self, digest: str, fitted: CalibratedFit) -> Seconds | None:
        trial = fitted.trials.get(digest)
        if trial is not None and trial.measured is not None:
            return trial.measured.seconds
        uses = self.observed.get((digest, fitted.setup.device), ())
        latencies = [use.latency for use in uses if use.latency and _same_setup(use.setup, fitted)]
        enough = [latency for latency in latencies if latency.count >= observed_latency.ENOUGH_LATENCIES]
        return max(enough, key=lambda latency: latency.count).median if enough else None


def _rank(fitted: CalibratedFit) -> tuple[int, str, int, str]:
    """Return what is preferred: threads, runtime, enough models, and then the newest (of two versions)."""
    newest = max((trial.measured.made for trial in fitted.trials.values() if trial.measured), default="")
    return fitted.setup.threads, fitted.setup.runtime, min(len(fitted.trials), ENOUGH_MODELS), newest


def _setup_matches(setup: Setup, target: Target, precision: str) -> bool:
    """Say whether a setup matches a target: precision, the whole device, link, rate and power."""
    if target.share < 1 or setup.precision != precision:
        return False
    if target.link:
        return _close(setup.link_bits_per_second, target.link)
    rate = target.rates.get(precision)  # many processors share an id, and only their rates tell them apart
    if rate and setup.effective_ops and not _close(setup.effective_ops, rate):
        return False
    if not setup.power or target.power is None:
        return not target.capped
    return _close(setup.power, target.power)


def _same_setup(setup: Setup, fitted: CalibratedFit) -> bool:
    """Say whether the setup of an observed use is the one that was calibrated."""
    same = setup.runtime == fitted.setup.runtime and setup.threads == fitted.setup.threads
    return same and _setup_matches(setup, fitted.target, fitted.setup.precision)


def _close(one: float | None, other: float) -> bool:
    return one is not None and abs(one / other - 1) < _TOLERANCE
