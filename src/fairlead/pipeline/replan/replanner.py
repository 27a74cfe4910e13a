"""Whether a running pipeline should be cut in another way, with hysteresis: noise moves nothing. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.pipeline.plan.cut import CutPlan, CutRefusal
from fairlead.pipeline.plan.evaluate import evaluate
from fairlead.pipeline.plan.solve import plan_cut
from fairlead.pipeline.profile.facts import PipelineProfile
from fairlead.pipeline.profile.problem import PipelineProblem, build_problem
from fairlead.pipeline.replan.beliefs import Beliefs
from fairlead.pipeline.replan.moves import ProposedMove
from fairlead.pipeline.replan.rates import Route, WindowRates
from fairlead.pipeline.spec import PipelineSpec, StageRole
from fairlead.units import format_bytes

MARGIN: Final = 0.15
"""The part of the present period that another cut must save."""
WINDOWS: Final = 3
"""Windows in a row that must propose the same cut."""
COOL_DOWN: Final = 10.0
"""Seconds without a move after a move; twice as many after each one that did not deliver."""
LONGEST_COOL_DOWN: Final = 320.0
PROBE_AFTER: Final = 30.0
"""Seconds until a slow link that carries no frames is measured again; twice as many after each time."""
LONGEST_PROBE: Final = 480.0


@dataclass(frozen=True, slots=True)
class _Made:
    """A move that was made, until it is known whether it delivered."""

    at: float
    period_s: float | None
    """What was measured before it."""


class Replanner:
    """Beliefs of a run, and the cut that they speak for."""

    def __init__(self, spec: PipelineSpec, profile: PipelineProfile, nodes: Mapping[str, str]) -> None:
        """Take the pipeline as its file has it, its profile, and the host of each stage."""
        self._spec = spec
        self._profile = profile
        self._nodes = dict(nodes)
        self._beliefs = Beliefs()
        self._wanted: tuple[str, ...] = ()
        self._windows = 0
        self._held_back = False
        self._period: float | None = None
        self._quiet_until = 0.0
        self._cool_down = COOL_DOWN
        self._made: _Made | None = None
        self._probe_pause: dict[Route, float] = {}

    def observe(self, window: WindowRates, now: float) -> ProposedMove | None:
        """Take what a window has measured, and return a move that pays; None: stages stay."""
        self._beliefs = self._beliefs.updated(self._profile, window, self._nodes, now)
        if window.held_back is not None:
            self._held_back = window.held_back
            self._period = window.period_s if window.held_back else None
        if window.is_empty or now < self._quiet_until:
            return None
        self._judge_last_move()
        known = self._beliefs.corrected(self._profile)
        planned = build_problem(self._spec, known)
        present = evaluate(planned.problem, self._present(planned))
        better = plan_cut(planned.problem) if self._held_back else None
        if not isinstance(better, CutPlan) or not _pays(better, present):
            self._wanted, self._windows = (), 0
            return None
        same = better.assignment == self._wanted
        self._wanted, self._windows = better.assignment, self._windows + 1 if same else 1
        if self._windows < WINDOWS:
            return None
        self._wanted, self._windows = (), 0
        nodes = dict(zip(planned.stages, planned.nodes_of(better), strict=True))
        period = present.period_s if isinstance(present, CutPlan) else float("inf")
        return ProposedMove(nodes, self._reason(), period, better.period_s)

    def on_moved(self, nodes: Mapping[str, str], now: float) -> None:
        """Take where stages are after a move."""
        self._nodes |= nodes
        self._made = _Made(now, self._period)
        self._quiet_until = now + self._cool_down

    def on_given_up(self, now: float) -> None:
        """Take that a move could not be made: the next one waits longer."""
        self._cool_down = min(2 * self._cool_down, LONGEST_COOL_DOWN)
        self._quiet_until = now + self._cool_down

    def due_probe(self, now: float) -> Route | None:
        """Return a link that is believed to be slow, carries no frames, and is to be measured again."""
        for link in self._beliefs.slow_links(self._profile, MARGIN):
            route = (link.source, link.target)
            pause = self._probe_pause.get(route, PROBE_AFTER)
            if now - self._beliefs.measured_at.get(route, now) >= pause:
                self._probe_pause[route] = min(2 * pause, LONGEST_PROBE)
                return route
        return None

    def on_probe(self, route: Route, rate: float, now: float) -> None:
        """Take the bytes a second of a link that was measured by itself."""
        profiled = {(link.source, link.target): link.bytes_per_s for link in self._profile.links}
        if rate >= profiled.get(route, 0.0) * (1 - MARGIN):
            self._probe_pause.pop(route, None)
        self._beliefs = self._beliefs.with_link(route, rate, now)

    def _present(self, planned: PipelineProblem) -> list[str]:
        return [self._nodes[stage.name] for stage in planned.problem.stages]

    def _judge_last_move(self) -> None:
        """Let the next move wait longer if the last one did not bring what it was for."""
        made, self._made = self._made, None
        if made is None or made.period_s is None:
            return
        if self._period is not None and self._period > made.period_s * (1 - MARGIN / 2):
            self._cool_down = min(2 * self._cool_down, LONGEST_COOL_DOWN)
        else:
            self._cool_down = COOL_DOWN

    def _reason(self) -> str:
        """Return the measured values that are farthest from the profile."""
        return max(self._changes(), default=(1.0, "the measured rates differ from the profile"))[1]

    def _changes(self) -> Iterator[tuple[float, str]]:
        for link in self._profile.links:
            rate = self._beliefs.rates.get((link.source, link.target), link.bytes_per_s)
            text = f"{link.source}->{link.target} carries {format_bytes(round(rate))}/s"
            far = max(rate / link.bytes_per_s, link.bytes_per_s / rate)
            yield far, f"{text}, {format_bytes(round(link.bytes_per_s))}/s in the profile"
        for (stage, node), ratio in self._beliefs.ratios.items():
            facts = self._profile.stage(stage)
            if facts is not None and ratio > 0 and facts.costs[node].seconds * max(1.0, ratio) > 1e-3:
                before = facts.costs[node].seconds * 1e3
                text = f"{stage} takes {before * ratio:.3g} ms on {node}, {before:.3g} ms in the profile"
                yield max(ratio, 1 / ratio), text


def movable_stages(spec: PipelineSpec) -> frozenset[str]:
    """Return the stages that may be moved: the file states no `on` for them."""
    ends = (StageRole.SOURCE, StageRole.SINK)
    return frozenset(each.name for each in spec.stages if each.role not in ends and not each.is_placed)


def _pays(better: CutPlan, present: CutPlan | CutRefusal) -> bool:
    return isinstance(present, CutRefusal) or better.period_s <= present.period_s * (1 - MARGIN)
