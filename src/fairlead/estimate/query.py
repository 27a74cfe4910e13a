"""The query of an estimate: a model, and how it is to run."""

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
"""The largest batch: images, or sentences, in one run."""
_TENSOR_CORES: Final = "tf32"
"""Computes fp32 on tensor cores: values are stored as wide as fp32."""


@dataclass(frozen=True, slots=True)
class Query:
    """A model, and how it is to run."""

    profile: Profile
    model: Features
    precision: str | None = None
    """As if the model were converted to it; None: as the file is, where a device takes it so."""
    batch: int = 1
    slo: Seconds | None = None
    exact: bool = True
    """False: the amounts of the model are lower bounds."""

    @classmethod
    def of(
        cls,
        profile: Profile,
        precision: str | None = None,
        batch: int | None = None,
        slo: Seconds | None = None,
    ) -> "Query":
        """Return the query of a model; without a batch, the batch of the file counts."""
        requested = None if precision is None else precision.lower()
        if requested is not None and requested not in PRECISIONS:
            raise SettingsError(f"no precision {precision!r}", f"known: {', '.join(PRECISIONS)}")
        if batch is not None and not 1 <= batch <= _MOST:
            raise SettingsError(f"a batch of {batch} is not possible", f"write a number from 1 to {_MOST}")
        if slo is not None and not 0 < slo < float("inf"):
            raise SettingsError(f"a latency of {slo:g} s cannot be met", "write it like 30ms")
        size = batch or profile.batch or 1
        return cls(profile, features(profile), requested, size, slo, profile.exact)

    def amounts(self, precision: str) -> WorkAmounts:
        """Return the work of the model where values have that precision."""
        width = _bits(precision) / _bits(self.profile.precision)
        return amounts(self.model).scaled(self.batch / self.model.batch, width)

    def matches_digest(self, precision: str) -> bool:
        """Say whether the digest of the model names the queried batch and precision."""
        return self.batch == self.model.batch and precision == self.profile.precision


@cache
def _bits(precision: str) -> int:
    return BITS["fp32"] if precision == _TENSOR_CORES else BITS.get(precision, BITS["fp32"])
