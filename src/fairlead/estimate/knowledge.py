"""What is known beyond data sheets: calibrations, and what models did in real use."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.calibration import Calibration, ObservedUse, Setup, merge_observed, setup_id
from fairlead.catalog import Catalog
from fairlead.estimate import observed_latency
from fairlead.estimate.calibrated import CalibratedFit, fit
from fairlead.estimate.target import Target
from fairlead.units import Ops, Seconds

_PLACEHOLDER_RATE: Final = 1e12
"""A rate that is as good as any where runs set the level."""
_TOLERANCE: Final = 0.1
"""Rates, power limits and links that differ by less are the same."""

Fitting = Callable[[Calibration, Catalog], CalibratedFit | None]


class FitCache:
    """Fits what was not fitted before: it takes long, and of many calibrations one at a time changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Calibration, CalibratedFit | None]] = {}

    def __call__(self, calibration: Calibration, catalog: Catalog) -> CalibratedFit | None:
        """Return what a calibration says."""
        key = setup_id(calibration.setup, calibration.host)
        known = self._known.get(key)
        if known is None or known[0] != calibration:
            known = self._known[key] = (calibration, fit(calibration, catalog))
        return known[1]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Everything that predictions may stand on."""

    fitted: tuple[CalibratedFit, ...] = ()
    by_device: Mapping[str, tuple[CalibratedFit, ...]] = field(default_factory=dict)
    observed: Mapping[tuple[str, str], tuple[ObservedUse, ...]] = field(default_factory=dict)
    """By a model's digest and the catalog id of the device."""

    @classmethod
    def of(
        cls,
        calibrations: Iterable[Calibration],
        catalog: Catalog,
        seen: Iterable[ObservedUse] = (),
        fitting: Fitting = fit,
    ) -> "Knowledge":
        """Learn from calibrations and real use; a device that the catalog does not know is passed over."""
        found = [fitting(calibration, catalog) for calibration in calibrations]
        fitted = tuple(each for each in found if each is not None)
        shelves: dict[str, tuple[CalibratedFit, ...]] = {}
        for each in fitted:
            shelves[each.setup.device] = (*shelves.get(each.setup.device, ()), each)
        lived: dict[tuple[str, str], tuple[ObservedUse, ...]] = {}
        for one in seen:
            key = (one.digest, one.setup.device)
            lived[key] = (*lived.get(key, ()), one)
        return cls(fitted, shelves, lived)

    def rates(self, target: Target) -> Mapping[str, Ops]:
        """Return the rates of a device; where the catalog has none, those at which it was calibrated."""
        if target.rates:
            return target.rates
        same = self.by_device.get(target.device, ())
        return {each.setup.precision: Ops(each.setup.effective_ops or _PLACEHOLDER_RATE) for each in same}

    def own_fit(self, target: Target, precision: str) -> CalibratedFit | None:
        """Return the calibration of this very device, whole and in the same mode."""
        known = self.by_device.get(target.device, ())
        same = [each for each in known if _setup_matches(each.setup, target, precision)]
        return max(same, key=lambda each: (each.setup.threads, each.setup.runtime), default=None)

    def observed_use(self, digest: str, target: Target, precision: str) -> ObservedUse | None:
        """Return what a model did in real use on this very device, on all machines together."""
        found: ObservedUse | None = None
        for each in self.observed.get((digest, target.device), ()):
            if _setup_matches(each.setup, target, precision):
                found = each if found is None else merge_observed(found, each)
        return found

    def measured_times(self, digest: str) -> list[tuple[CalibratedFit, Seconds]]:
        """Return the calibrated setups on which a model ran, and how long: in a trial, or often in use."""
        found = ((each, self._measured_time(digest, each)) for each in self.fitted)
        return [(each, seconds) for each, seconds in found if seconds is not None]

    def _measured_time(self, digest: str, each: CalibratedFit) -> Seconds | None:
        trial = each.trials.get(digest)
        if trial is not None and trial.measured is not None:
            return trial.measured.seconds
        sights = self.observed.get((digest, each.setup.device), ())
        known = [seen.latency for seen in sights if seen.latency and _same_setup(seen.setup, each)]
        often = [latency for latency in known if latency.count >= observed_latency.ENOUGH_LATENCIES]
        return max(often, key=lambda latency: latency.count).median if often else None


def _setup_matches(setup: Setup, target: Target, precision: str) -> bool:
    """Say whether a setup is of a target as it is used: precision, the whole of it, link, rate and power."""
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


def _same_setup(setup: Setup, each: CalibratedFit) -> bool:
    """Say whether a model was seen on a setup as it was calibrated."""
    same = setup.runtime == each.setup.runtime and setup.threads == each.setup.threads
    return same and _setup_matches(setup, each.target, each.setup.precision)


def _close(one: float | None, other: float) -> bool:
    return one is not None and abs(one / other - 1) < _TOLERANCE
