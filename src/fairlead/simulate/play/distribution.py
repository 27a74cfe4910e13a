"""Numbers of seconds that are drawn: `90s`, `uniform 20s-40s`, `exponential 30s`, `poisson 30s`."""

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
"""A Poisson process is one whose gaps are exponential."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A number of seconds, or how to draw one."""

    spread: str
    low: float
    high: float

    @classmethod
    def fixed(cls, seconds: float) -> "Distribution":
        """Return a number that is always the same."""
        return cls("fixed", seconds, seconds)

    @classmethod
    def parse(cls, text: str, where: str) -> "Distribution":
        """Read one; `where` names it in errors."""
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
            found = cls(_SPREADS[spread], parse_duration(low), parse_duration(high or low))
        except ValueError as error:
            raise SettingsError(f"{where}: {fault(error)}", _HINT) from None
        if found.high < found.low or not found.high < 1e12:
            raise SettingsError(f"{where}: {text!r}: no such range", _HINT)
        return found

    def draw(self, random: Random) -> float:
        """Return a number of seconds."""
        if self.spread == "fixed":
            return self.low
        if self.spread == "uniform":
            return random.uniform(self.low, self.high)
        return random.expovariate(1.0 / self.low) if self.low else 0.0
