"""Predict a model on many devices: what runs is put into matrices, once for all of them."""

from collections.abc import Iterator, Sequence

import numpy as np

from fairlead.estimate.amounts import WorkAmounts
from fairlead.estimate.calibrated import CalibratedFit
from fairlead.estimate.cost_model import build_cost_model
from fairlead.estimate.feasible import ExecutionPlan, Infeasible, execution_plan
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.query import Query
from fairlead.estimate.raw_estimate import RawEstimate, apply_observed_use, apply_runs
from fairlead.estimate.speeds import speed
from fairlead.estimate.target import Target
from fairlead.prediction import Z90, Estimate, confidence
from fairlead.units import Bytes, Seconds, Watts, format_bytes


def estimate(question: Query, targets: Sequence[Target], knowledge: Knowledge) -> list[Estimate]:
    """Return what to expect of a model on each device, in their order."""
    ways = _execution_plans(question, targets, knowledge)
    taken = [
        (target, how) for target, how in zip(targets, ways, strict=True) if isinstance(how, ExecutionPlan)
    ]
    found = iter(_raw_estimates(question, taken, knowledge))
    return [
        _infeasible_estimate(question, target, how)
        if isinstance(how, Infeasible)
        else _estimate(question, target, how, next(found))
        for target, how in zip(targets, ways, strict=True)
    ]


def _execution_plans(
    question: Query, targets: Sequence[Target], knowledge: Knowledge
) -> list[ExecutionPlan | Infeasible]:
    """Ask once for all devices of a family that compute in the same precisions."""
    known: dict[tuple[str, ...], ExecutionPlan | Infeasible] = {}
    ways: list[ExecutionPlan | Infeasible] = []
    for target in targets:
        if target.reason:
            ways.append(Infeasible((target.reason,)))
            continue
        has = tuple(knowledge.rates(target))
        key = (target.kind, target.vendor, target.family, *has)
        if key not in known:
            given = speed(target.kind, target.vendor, target.family)
            known[key] = execution_plan(question.profile, given, has, question.precision)
        ways.append(known[key])
    return ways


def _raw_estimates(
    question: Query, taken: Sequence[tuple[Target, ExecutionPlan]], knowledge: Knowledge
) -> Iterator[RawEstimate]:
    """Work out all targets at once, then put in the place of predictions what was really seen."""
    if not taken:
        return
    targets, ways = zip(*taken, strict=True)
    places = {precision: place for place, precision in enumerate({how.precision for how in ways})}
    kinds = [question.amounts(precision) for precision in places]
    picked = [places[how.precision] for how in ways]
    work = [kinds[place] for place in picked]
    base = build_cost_model(targets, ways, work, knowledge)
    seconds = (base.times * np.array([kind.time for kind in kinds])[picked]).sum(1) + base.link
    p90 = seconds * np.exp(np.hypot(Z90 * base.spread, base.jitter))
    memory = (base.memory * np.array([kind.memory for kind in kinds])[picked]).sum(1)
    rows = zip(seconds.tolist(), p90.tolist(), memory.tolist(), base.spread.tolist(), base.basis, strict=True)
    ran = knowledge.measured_times(question.model.digest)
    for (target, how), own, each, row in zip(taken, base.own_fit, work, rows, strict=True):
        runtime = how.runtime.name if own is None else own.setup.runtime
        figures = RawEstimate(*row, watts=_watts(target, own, each, row[0]), runtime=runtime)
        if own is not None and question.matches_digest(how.precision):
            figures = apply_runs(figures, question.model, own, ran)
        if knowledge.observed and question.matches_digest(how.precision):
            lived = knowledge.observed_use(question.model.digest, target, how.precision)
            figures = figures if lived is None else apply_observed_use(figures, lived)
        yield figures


def _watts(target: Target, own: CalibratedFit | None, work: WorkAmounts, seconds: float) -> float | None:
    """Return the power while busy: by what each amount of work was seen to take, or by the data sheet."""
    if own is not None and own.power is not None:
        return own.power.watts(work.time, seconds)
    if target.power is None:
        return None
    return target.power * speed(target.kind, target.vendor, target.family).busy


def _estimate(question: Query, target: Target, how: ExecutionPlan, figures: RawEstimate) -> Estimate:
    memory = Bytes(int(figures.memory))
    lacking = _missing_memory(memory, target.memory)
    return Estimate(
        device=target.name,
        model=question.profile.name,
        runtime=figures.runtime,
        precision=how.precision,
        batch=question.batch,
        fits=not lacking,
        needs=how.needs,
        reasons=lacking,
        seconds=Seconds(figures.seconds),
        p90=Seconds(figures.p90),
        memory=memory,
        available=target.memory,
        watts=None if figures.watts is None else Watts(figures.watts),
        joules=None if figures.watts is None else figures.watts * figures.seconds,
        confidence=_confidence(figures, exact=question.exact),
        basis=figures.basis,
        meets_slo=None if question.slo is None else figures.p90 <= question.slo,
    )


def _missing_memory(memory: Bytes, there: Bytes | None) -> tuple[str, ...]:
    if there is None or memory <= there:
        return ()
    return (f"memory: it takes {format_bytes(memory)}, and there are {format_bytes(there)}",)


def _confidence(figures: RawEstimate, *, exact: bool) -> str:
    if not exact and figures.basis != "measured":
        return "low"
    return confidence(figures.spread)


def _infeasible_estimate(question: Query, target: Target, refusal: Infeasible) -> Estimate:
    return Estimate(
        device=target.name,
        model=question.profile.name,
        runtime=refusal.runtime,
        batch=question.batch,
        runs=False,
        reasons=refusal.reasons,
        available=target.memory,
        meets_slo=None if question.slo is None else False,
    )
