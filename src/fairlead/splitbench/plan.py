"""SplitPlan: what one measurement runs; its options as texts, checked."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.errors import SettingsError
from fairlead.splitting.peers import RULES

FACTORS: Final = {"device-slows": 0.3, "server-halves": 0.5, "device-lost": 0.0}
"""Events, and by what the rate of the worker that is struck is multiplied."""
_EVENT: Final = re.compile(r"([a-z-]+)@([0-9]+(?:\.[0-9]+)?)%")
_MOST_WORKERS: Final = 64
_MOST_INPUTS: Final = 1_000_000
_TINY: Final = 32
"""Bytes of an input where no link is to be measured."""
_LARGEST: Final = 256 << 10
_LINK_SHARE: Final = 0.5
"""Of the link of the devices requests and inputs take this much, when the size is not stated."""
_REQUEST: Final = 700
"""Bytes of the link that a request for an input takes, and its result."""


@dataclass(frozen=True, slots=True)
class SplitEvent:
    """What happens when a share of the inputs has results."""

    kind: str
    share: float

    @property
    def is_of_server(self) -> bool:
        """Whether the server is struck, and not the first device."""
        return self.kind == "server-halves"


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """One job, its workers, and what happens to them."""

    shares: tuple[float, ...]
    """How fast the workers are, relative to one another; the last is the server."""
    inputs: int
    seconds: float
    """The ideal makespan."""
    link: float | None = None
    """Bytes a second of the devices' link to the store; None: they have the inputs."""
    event: SplitEvent | None = None
    rule: str = RULES[0]
    seed: int = 0
    size: int | None = None
    """Bytes of an input; None: as the link allows."""
    believed: float = 1.3
    """What the rules that are given rates believe of each device, times its rate."""

    @property
    def rates(self) -> tuple[float, ...]:
        """Inputs a second of each worker."""
        one = self.inputs / self.seconds / math.fsum(self.shares)
        return tuple(one * share for share in self.shares)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the workers."""
        return (*(f"device-{number}" for number in range(1, len(self.shares))), "server")

    @property
    def input_size(self) -> int:
        """Bytes of each input."""
        if self.size is not None:
            return self.size
        if self.link is None:
            return _TINY
        devices = math.fsum(self.rates[:-1])
        return max(_TINY, min(_LARGEST, int(_LINK_SHARE * self.link / devices) - _REQUEST))

    @property
    def best_rates(self) -> tuple[float, ...]:
        """The rates of the workers, none above what its link carries."""
        if self.link is None:
            return self.rates
        devices = math.fsum(self.rates[:-1])
        factor = min(1.0, self.link / max(1, self.input_size) / devices)
        return (*(rate * factor for rate in self.rates[:-1]), self.rates[-1])

    def struck(self, event: SplitEvent) -> tuple[float, ...]:
        """Return the rates after an event."""
        rates = list(self.best_rates)
        rates[-1 if event.is_of_server else 0] *= FACTORS[event.kind]
        return tuple(rates)


def parse_rates(text: str) -> tuple[float, ...]:
    """Parse rates such as 1:37; SettingsError for others."""
    try:
        rates = tuple(float(part) for part in text.split(":"))
    except ValueError:
        rates = ()
    if not 2 <= len(rates) <= _MOST_WORKERS or not all(0 < rate < 1e9 for rate in rates):
        raise SettingsError(
            f"--rates {text}: no rates of 2 to {_MOST_WORKERS} workers",
            "write them with colons between, the server last: 1:37, or 1:1:5",
        )
    return rates


def parse_event(text: str) -> SplitEvent:
    """Parse an event such as device-lost@98%; SettingsError for others."""
    found = _EVENT.fullmatch(text)
    if found is None or found[1] not in FACTORS or float(found[2]) > 100:
        raise SettingsError(
            f"--event {text}: no event", f"write KIND@P%, such as device-lost@98%; of {', '.join(FACTORS)}"
        )
    return SplitEvent(found[1], float(found[2]) / 100)


def check(plan: SplitPlan) -> SplitPlan:
    """Return a plan that can be run; SettingsError for others."""
    if not 1 <= plan.inputs <= _MOST_INPUTS:
        raise SettingsError(f"--inputs {plan.inputs}: out of range", f"choose from 1 to {_MOST_INPUTS}")
    if not 0.05 <= plan.seconds <= 86_400:
        raise SettingsError(f"--seconds {plan.seconds:g}: out of range", "choose from 0.05 to 86400")
    if plan.link is not None and not 100 <= plan.link < 1e12:
        raise SettingsError(f"--link {plan.link:g}: out of range", "choose from 100 bytes a second")
    if plan.size is not None and not 0 <= plan.size <= 64 << 20:
        raise SettingsError(f"--size {plan.size}: out of range", "choose up to 64Mi")
    _check_rule(plan.rule, plan.event)
    return plan


def _check_rule(rule: str, event: SplitEvent | None) -> None:
    if rule not in RULES:
        raise SettingsError(f"--rule {rule}: no such rule", f"of {', '.join(RULES)}")
    if rule != RULES[0] and event is not None and event.kind == "device-lost":
        raise SettingsError(
            f"--rule {rule}: a job with this rule waits for the lease of a lost device",
            "choose another event",
        )


def whole_makespan(inputs: int, rates: Sequence[float]) -> float:
    """Return the shortest makespan in which each worker ends whole inputs, all begun at once."""
    done = [0] * len(rates)
    low, high = 0.0, inputs / max(rates)
    for _ in range(100):
        middle = (low + high) / 2
        done = [math.floor(rate * middle + 1e-9) for rate in rates]
        low, high = (low, middle) if sum(done) >= inputs else (middle, high)
    return high
