"""The decision while the job runs: with hysteresis, so that noise moves nothing."""

from dataclasses import dataclass, replace

from fairlead.splitting.policy.decide import HELPS, PolicyDecision, behind, decide
from fairlead.splitting.policy.expected import ExpectedCost, OffloadChoice
from fairlead.splitting.policy.facts import Compute, OffloadFacts, OffloadObjective


@dataclass(frozen=True, slots=True)
class Hysteresis:
    """When another alternative is taken."""

    margin: float = 0.15
    """The present one must cost more than the best by this share of the best."""
    joins: float = 1.25 * HELPS
    """A side joins the other one if that saves this share: nothing moves but inputs that nobody has begun."""
    leaves: float = 0.8 * HELPS
    """And leaves it again if it saves less than this."""
    saves_s: float = 1.0
    """And the change must save this many seconds."""
    patience_s: float = 3.0
    """For so long without a pause."""
    rest_s: float = 10.0
    """After a change there is no other for so long, unless the present alternative becomes impossible."""


@dataclass(frozen=True, slots=True)
class PolicyState:
    """What is done, and since when something else looks better."""

    decision: PolicyDecision
    """By the latest facts; its `chosen` is what is done."""
    since: float
    """When the present alternative was taken."""
    better_since: float | None = None
    changes: int = 0

    @property
    def chosen(self) -> OffloadChoice | None:
        """What is done; None: nothing is possible now."""
        return None if self.decision.chosen is None else self.decision.chosen.choice


def begin(facts: OffloadFacts, now: float) -> PolicyState:
    """Return the decision of the first second."""
    return PolicyState(decide(facts), now)


def revise(
    state: PolicyState, facts: OffloadFacts, now: float, rules: Hysteresis | None = None
) -> PolicyState:
    """Return the state after a look at the facts; call it about every second."""
    rules = rules or Hysteresis()
    fresh = decide(facts)
    present = None if state.chosen is None else fresh.expected(state.chosen)
    if fresh.chosen is None or present is None or fresh.measures or state.decision.measures:
        return _take(state, fresh, now)
    if fresh.chosen.choice == present.choice or not _worth(present, fresh.chosen, facts, rules):
        return replace(state, decision=_keep(fresh, present), better_since=None)
    since = now if state.better_since is None else state.better_since
    if now - since < rules.patience_s or (state.changes and now - state.since < rules.rest_s):
        return replace(state, decision=_keep(fresh, present), better_since=since)
    return _take(state, fresh, now)


def _worth(present: ExpectedCost, better: ExpectedCost, facts: OffloadFacts, rules: Hysteresis) -> bool:
    """Say whether a change saves enough."""
    if present.seconds is not None and present.seconds <= rules.saves_s:
        return False
    if facts.objective is OffloadObjective.TIME and present.choice.storage is better.choice.storage:
        if better.choice.compute is Compute.SPLIT:
            return behind(present, better, facts.objective) > rules.joins
        if present.choice.compute is Compute.SPLIT:  # no later than one side alone, and less plain
            return behind(better, present, facts.objective) < rules.leaves
    return behind(present, better, facts.objective) > rules.margin


def _keep(fresh: PolicyDecision, present: ExpectedCost) -> PolicyDecision:
    if fresh.chosen is present:
        return fresh
    return replace(fresh, chosen=present, reason="kept: the change would not pay for itself yet")


def _take(state: PolicyState, fresh: PolicyDecision, now: float) -> PolicyState:
    same = fresh.chosen is not None and fresh.chosen.choice == state.chosen
    if same or (fresh.chosen is None and state.chosen is None):
        return replace(state, decision=fresh, better_since=None)
    return PolicyState(fresh, now, changes=state.changes + 1)
