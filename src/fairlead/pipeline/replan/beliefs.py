"""What is believed of stages and links of a run: its profile, corrected by what was measured. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead.pipeline.profile.facts import LinkFacts, PipelineProfile, StageCost, StageFacts
from fairlead.pipeline.replan.rates import LinkUse, Route, WindowRates

_BUSY: Final = 0.5
"""The share of a window in which a link must be busy for its rate to be what it can carry."""
_ENOUGH: Final = 1 << 18
"""Bytes of a window that say something of a link that is mostly idle."""
_LEAST: Final = 1 << 15
"""Bytes of a window below which a link is slow by its delay, not by its rate."""
_MATERIAL: Final = 0.0005
"""Seconds that a stage must take for its time to say something of its machine."""


@dataclass(frozen=True, slots=True)
class Beliefs:
    """What was measured last, of each stage on each host, and of each link."""

    ratios: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By stage and host: its measured time by that of the profile."""
    rates: Mapping[Route, float] = field(default_factory=dict)
    """Bytes a second."""
    measured_at: Mapping[Route, float] = field(default_factory=dict)
    """When the rate of a link was last measured."""

    def updated(
        self, profile: PipelineProfile, window: WindowRates, nodes: Mapping[str, str], now: float
    ) -> "Beliefs":
        """Return the beliefs after a window, in which stages were on these hosts."""
        ratios = dict(self.ratios)
        for stage, seconds in window.costs.items():
            facts, node = profile.stage(stage), nodes.get(stage, "")
            cost = facts.costs.get(node) if facts is not None else None
            if cost is not None and cost.seconds > 0 and seconds > 0:
                ratios[stage, node] = seconds / cost.seconds
        rates, times = dict(self.rates), dict(self.measured_at)
        for link in profile.links:
            route = (link.source, link.target)
            use = window.links.get(route)
            if use is None:
                continue
            known = rates.get(route, link.bytes_per_s)
            if (rate := _rate(use, known, link.bytes_per_s)) is not None:
                rates[route], times[route] = rate, now
        return Beliefs(ratios, rates, times)

    def with_link(self, route: Route, rate: float, now: float) -> "Beliefs":
        """Return the beliefs after a link was measured by itself."""
        return replace(self, rates={**self.rates, route: rate}, measured_at={**self.measured_at, route: now})

    def corrected(self, profile: PipelineProfile) -> PipelineProfile:
        """Return the profile with what was measured since.

        What all stages on a host have in common is its host's; what is left is the stage's, on every host.
        """
        shared = {machine.name: self._shared(profile, machine.name) for machine in profile.machines}
        links = tuple(
            replace(link, bytes_per_s=self.rates.get((link.source, link.target), link.bytes_per_s))
            for link in profile.links
        )
        stages = tuple(self._stage(facts, shared) for facts in profile.stages)
        return replace(profile, links=links, stages=stages)

    def slow_links(self, profile: PipelineProfile, margin: float) -> list[LinkFacts]:
        """Return the links that are believed to carry less than their profile says."""
        return [
            link
            for link in profile.links
            if self.rates.get((link.source, link.target), link.bytes_per_s) < link.bytes_per_s * (1 - margin)
        ]

    def _stage(self, facts: StageFacts, shared: Mapping[str, float]) -> StageFacts:
        own = [ratio / shared[node] for (stage, node), ratio in self.ratios.items() if stage == facts.name]
        factor = own[-1] if own else 1.0

        def cost(node: str, known: StageCost) -> StageCost:
            ratio = self.ratios.get((facts.name, node), factor * shared.get(node, 1.0))
            return replace(known, seconds=known.seconds * ratio)

        return replace(facts, costs={node: cost(node, known) for node, known in facts.costs.items()})

    def _shared(self, profile: PipelineProfile, node: str) -> float:
        """Return the factor that all stages of a host have in common; 1 where fewer than two are known."""
        ratios = []
        for (name, where), ratio in self.ratios.items():
            facts = profile.stage(name)
            if where == node and facts is not None and facts.costs[node].seconds >= _MATERIAL:
                ratios.append(ratio)
        if len(ratios) < 2:
            return 1.0
        return max(1.0, min(ratios)) if min(ratios) > 1 else min(1.0, max(ratios))


def _rate(use: LinkUse, known: float, profiled: float) -> float | None:
    """Return what a link is believed to carry after a window; None: the window does not say.

    A link that is mostly idle takes bytes faster than it carries them: it can only come back to its profile.
    """
    if use.bytes < _LEAST:
        return None
    if use.share >= _BUSY:
        return use.rate
    if use.bytes < _ENOUGH or use.rate <= known:
        return None
    return min(use.rate, max(known, profiled))
