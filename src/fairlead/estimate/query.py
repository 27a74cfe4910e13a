"""What is asked: a model, and how it is to be run."""

from dataclasses import dataclass
from functools import cache
from typing import Final

from fairlead.calibration import Features, features
from fairlead.catalog.device import PRECISIONS
from fairlead.errors import SettingsError
from fairlead.estimate.amounts import WorkAmounts, amounts
from fairlead.units import Seconds
from fairlead.workload import BITS, Profile

_MOST: Final = 1_000_000
"""Images, or sentences, in one run."""
_TENSOR_CORES: Final = "tf32"
"""A way to compute fp32: values are stored as wide as those."""


@dataclass(frozen=True, slots=True)
class Query:
    """A model, and how it is to be run."""

    profile: Profile
    model: Features
    precision: str | None = None
    """As if it were converted to it; None: as the file is, where a device takes it so."""
    batch: int = 1
    slo: Seconds | None = None
    exact: bool = True
    """Otherwise its amounts are lower bounds."""

    @classmethod
    def of(
        cls,
        profile: Profile,
        precision: str | None = None,
        batch: int | None = None,
        slo: Seconds | None = None,
    ) -> "Query":
        """Ask about a model; without a batch, about that of the file."""
        asked = None if precision is None else precision.lower()
        if asked is not None and asked not in PRECISIONS:
            raise SettingsError(f"no precision {precision!r}", f"known: {', '.join(PRECISIONS)}")
        if batch is not None and not 1 <= batch <= _MOST:
            raise SettingsError(f"a batch of {batch}", f"write a number from 1 to {_MOST}")
        if slo is not None and not 0 < slo < float("inf"):
            raise SettingsError(f"a latency of {slo:g} s cannot be met", "write it like 30ms")
        wanted = batch or profile.batch or 1
        return cls(profile, features(profile), asked, wanted, slo, profile.exact)

    def amounts(self, precision: str) -> WorkAmounts:
        """Return its work where values are of that precision."""
        wide = _bits(precision) / _bits(self.profile.precision)
        return amounts(self.model).scaled(self.batch / self.model.batch, wide)

    def matches_digest(self, precision: str) -> bool:
        """Say whether what the digest names is what is asked about."""
        return self.batch == self.model.batch and precision == self.profile.precision


@cache
def _bits(precision: str) -> int:
    return BITS["fp32"] if precision == _TENSOR_CORES else BITS.get(precision, BITS["fp32"])
