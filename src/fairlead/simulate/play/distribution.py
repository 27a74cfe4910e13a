"""Distributions of durations: `90s`, `uniform 20s-40s`, `exponential 30s`, `poisson 30s`."""

from dataclasses import dataclass
from random import Random
from typing import Final

from fairlead.errors import SettingsError
from fairlead.units import fault, parse_duration

_HINT: Final = "write it like 90s, every 30s, uniform 20s-40s, exponential 30s, poisson 30s or at once"
_SPREADS: Final = {
    "exponential": "exponential",
    "poisson": "exponential",
    "every": "fixed",
    "uniform": "uniform",
}
"""A Poisson process has exponential gaps."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A fixed duration in seconds, or a distribution of durations."""

    spread: str
    low: float
    high: float

    @classmethod
    def fixed(cls, seconds: float) -> "Distribution":
        """Return a distribution with one value."""
        return cls("fixed", seconds, seconds)

    @classmethod
    def parse(cls, text: str, where: str) -> "Distribution":
        """Read a distribution; `where` names it in errors."""
        words = text.split()
        if words == ["at", "once"]:
            return cls.fixed(0.0)
        spread, amount = (words[0], "".join(words[1:])) if len(words) > 1 else ("every", text)
        if spread not in _SPREADS:
            raise SettingsError(f"{where}: {text!r} is not understood", _HINT)
        low, dash, high = amount.partition("-")
        if bool(dash) != (spread == "uniform"):
            raise SettingsError(f"{where}: {text!r} is not understood", _HINT)
        try:
            distribution = cls(_SPREADS[spread], parse_duration(low), parse_duration(high or low))
        except ValueError as error:
            raise SettingsError(f"{where}: {fault(error)}", _HINT) from None
        if distribution.high < distribution.low or not distribution.high < 1e12:
            raise SettingsError(f"{where}: {text!r}: the range is invalid", _HINT)
        return distribution

    def draw(self, random: Random) -> float:
        """Draw a number of seconds."""
        if self.spread == "fixed":
            return self.low
        if self.spread == "uniform":
            return random.uniform(self.low, self.high)
        return random.expovariate(1.0 / self.low) if self.low else 0.0
