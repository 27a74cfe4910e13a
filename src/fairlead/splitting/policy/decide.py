"""All alternatives of a job in order, and the one to take."""

import math
from dataclasses import dataclass, replace
from typing import Final

from fairlead.prediction import Z90
from fairlead.splitting.policy.expected import CHOICES, ExpectedCost, Impossible, OffloadChoice, expect
from fairlead.splitting.policy.facts import Compute, OffloadFacts, OffloadObjective, SideFacts
from fairlead.splitting.policy.rates import RateBasis

HELPS: Final = 0.01
"""An alternative that saves less than this share of the cost is not worth more parts that can fail."""
_PLAIN: Final = {Compute.DEVICE: 0, Compute.SERVER: 1, Compute.SPLIT: 2}


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """The alternatives, the best first, and which one is taken."""

    alternatives: tuple[ExpectedCost, ...]
    impossible: tuple[Impossible, ...]
    chosen: ExpectedCost | None
    """None: nothing is possible."""
    reason: str
    measures: bool = False
    """Whether it is taken to measure a side, and is to be made again once that is done."""

    def expected(self, choice: OffloadChoice) -> ExpectedCost | None:
        """Return what an alternative takes now; None: it is impossible."""
        return next((each for each in self.alternatives if each.choice == choice), None)


def decide(facts: OffloadFacts) -> PolicyDecision:
    """Return the decision for a job that runs by none of the alternatives yet."""
    results = [expect(choice, facts) for choice in CHOICES]
    impossible = tuple(each for each in results if isinstance(each, Impossible))
    possible = [each for each in results if isinstance(each, ExpectedCost)]
    ordered = tuple(sorted(possible, key=lambda each: (cost(each, facts.objective), _plainness(each))))
    if not ordered:
        return PolicyDecision((), impossible, None, "nothing is possible: " + impossible[0].reason)
    measuring = _to_measure(ordered, facts)
    chosen, reason = measuring or _choose(ordered, facts)
    return PolicyDecision(ordered, impossible, chosen, reason, measuring is not None)


def cost(each: ExpectedCost, objective: OffloadObjective) -> float:
    """Return what is to be small; infinite where a rate is not known."""
    if each.seconds is None:
        return float("inf")
    return each.joules if objective is OffloadObjective.ENERGY else each.seconds


def behind(each: ExpectedCost, best: ExpectedCost, objective: OffloadObjective) -> float:
    """Return the share by which an alternative costs more than the best one."""
    least = cost(best, objective)
    if least <= 0:
        return 0.0 if cost(each, objective) <= 0 else float("inf")
    return cost(each, objective) / least - 1


def _to_measure(ordered: tuple[ExpectedCost, ...], facts: OffloadFacts) -> tuple[ExpectedCost, str] | None:
    """Return the alternative that measures what is not known, where that may change the decision."""
    unknown = [each for each in ordered if each.seconds is None]
    if unknown:
        chosen = max(unknown, key=_plainness)
        return chosen, f"{_unknown_sides(facts)} not measured yet: the first inputs measure it"
    split = next((each for each in ordered if each.choice.compute is Compute.SPLIT), None)
    if split is None or facts.objective is not OffloadObjective.TIME or cost(split, facts.objective) <= 0:
        return None
    if behind(split, ordered[0], facts.objective) > HELPS or not _may_gain(split, facts):
        return None
    return split, "one side is only predicted, and may be worth its part: the first inputs measure it"


def _may_gain(split: ExpectedCost, facts: OffloadFacts) -> bool:
    """Say whether a split would pay if the sides that are only predicted were as fast as they may be."""
    best = replace(facts, device=_fastest(facts.device), server=_fastest(facts.server))
    if best == facts:
        return False
    at_best = expect(split.choice, best)
    alone = [
        each
        for choice in CHOICES
        if choice.compute is not Compute.SPLIT and isinstance(each := expect(choice, best), ExpectedCost)
    ]
    if not isinstance(at_best, ExpectedCost) or not alone:
        return False
    return all(behind(each, at_best, facts.objective) > HELPS for each in alone)


def _fastest(side: SideFacts) -> SideFacts:
    rate = side.rate
    if rate.per_s is None or rate.basis is not RateBasis.PREDICTED:
        return side
    return replace(side, rate=replace(rate, per_s=rate.per_s * math.exp(Z90 * rate.spread)))


def _choose(ordered: tuple[ExpectedCost, ...], facts: OffloadFacts) -> tuple[ExpectedCost, str]:
    """Return the plainest of those that cost the same."""
    best = ordered[0]
    near = [each for each in ordered if behind(each, best, facts.objective) <= HELPS]
    chosen = min(near, key=lambda each: (_plainness(each), cost(each, facts.objective)))
    if chosen is not best:
        return chosen, _not_worth(best, chosen, facts)
    if len(ordered) == 1:
        return chosen, "nothing else is possible"
    gain = behind(ordered[1], chosen, facts.objective)
    word = "less energy" if facts.objective is OffloadObjective.ENERGY else "sooner"
    return chosen, f"{100 * gain:.1f} % {word} than the next" if gain < float(
        "inf"
    ) else f"{word} than the next"


def _unknown_sides(facts: OffloadFacts) -> str:
    sides = {"device": facts.device, "server": facts.server}
    names = [name for name, side in sides.items() if side.rate.per_s is None and not side.refusal]
    return f"the rate of {' and '.join(names)} is"


def _not_worth(best: ExpectedCost, chosen: ExpectedCost, facts: OffloadFacts) -> str:
    gain = 100 * behind(chosen, best, facts.objective)
    if best.choice.compute is Compute.SPLIT and chosen.choice.compute is not Compute.SPLIT:
        return f"splitting cannot help: it would gain {gain:.2f} %"
    return f"another would gain {gain:.2f} % only, and moves more"


def _plainness(each: ExpectedCost) -> tuple[int, float]:
    """Return how much takes part: sides, then bytes that cross the link."""
    return _PLAIN[each.choice.compute], each.up + each.down
