"""Predict a model on many devices: all devices that run it share one pass over matrices."""

from collections.abc import Iterator, Sequence
from math import exp
from typing import Final, TypeAlias

import numpy as np

from fairlead.estimate import bounds
from fairlead.estimate.amounts import WorkAmounts
from fairlead.estimate.calibrated import CalibratedFit
from fairlead.estimate.cost_model import build_cost_model
from fairlead.estimate.feasible import ExecutionPlan, Infeasible, UnknownSpeed, execution_plan
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.query import Query
from fairlead.estimate.raw_estimate import RawEstimate, apply_observed_use, apply_runs
from fairlead.estimate.target import Target
from fairlead.prediction import Z90, Estimate, confidence
from fairlead.units import Bytes, Seconds, Watts, format_bytes

_ANY_PRECISION: Final = ("cpu", "gpu")
"""Kinds of devices that compute in any precision of a file."""


def estimate(query: Query, targets: Sequence[Target], knowledge: Knowledge) -> list[Estimate]:
    """Return the estimate of a model on each device, in the order of the devices."""
    plans = _execution_plans(query, targets, knowledge)
    feasible = [
        (target, plan) for target, plan in zip(targets, plans, strict=True) if isinstance(plan, ExecutionPlan)
    ]
    raw = iter(_raw_estimates(query, feasible, knowledge))
    return [
        _estimate(query, target, plan, next(raw))
        if isinstance(plan, ExecutionPlan)
        else _without_figures(query, target, plan)
        for target, plan in zip(targets, plans, strict=True)
    ]


def _without_figures(query: Query, target: Target, plan: Infeasible | UnknownSpeed) -> Estimate:
    if isinstance(plan, Infeasible):
        return _infeasible_estimate(query, target, plan)
    return _unknown_estimate(query, target, plan)


_Plan: TypeAlias = ExecutionPlan | Infeasible | UnknownSpeed


def _execution_plans(query: Query, targets: Sequence[Target], knowledge: Knowledge) -> list[_Plan]:
    """Return the plan of each device; devices of the same runtimes and precisions share one."""
    known: dict[tuple[str, ...], _Plan] = {}
    plans: list[_Plan] = []
    for target in targets:
        if target.reason:
            plans.append(Infeasible((target.reason,)))
            continue
        precisions = tuple(knowledge.rates(target))
        listed = "listed" if target.rates else ""
        key = (*target.speed.runtimes, listed, *precisions)
        if key not in known:
            known[key] = execution_plan(
                query.profile,
                target.speed,
                precisions,
                query.precision,
                family=target.family,
                complete=bool(listed),
            )
        plans.append(known[key])
    return plans


def _raw_estimates(
    query: Query, feasible: Sequence[tuple[Target, ExecutionPlan]], knowledge: Knowledge
) -> Iterator[RawEstimate]:
    """Predict all targets at once, then replace predictions by what was measured or observed."""
    if not feasible:
        return
    targets, plans = zip(*feasible, strict=True)
    indices = {precision: index for index, precision in enumerate({plan.precision for plan in plans})}
    by_precision = [query.amounts(precision) for precision in indices]
    picked = [indices[plan.precision] for plan in plans]
    work = [by_precision[index] for index in picked]
    cost = build_cost_model(targets, plans, work, knowledge)
    seconds = (cost.times * np.array([amounts.time for amounts in by_precision])[picked]).sum(1) + cost.link
    p90 = seconds * np.exp(np.hypot(Z90 * cost.spread, cost.jitter))
    memory = (cost.memory * np.array([amounts.memory for amounts in by_precision])[picked]).sum(1)
    rows = zip(seconds.tolist(), p90.tolist(), memory.tolist(), cost.spread.tolist(), cost.basis, strict=True)
    measured = knowledge.measured_times(query.model.digest)
    for (target, plan), own, amounts, row in zip(feasible, cost.own_fits, work, rows, strict=True):
        runtime = plan.runtime.name if own is None else own.setup.runtime
        raw = RawEstimate(*row, watts=_watts(target, own, amounts, row[0]), runtime=runtime)
        raw = raw if own is None else _bounded(raw, own, amounts)
        if own is not None and query.matches_digest(plan.precision):
            raw = apply_runs(raw, query.model, own, measured)
        if knowledge.observed and query.matches_digest(plan.precision):
            use = knowledge.observed_use(query.model.digest, target, plan.precision)
            raw = raw if use is None else apply_observed_use(raw, use)
        yield raw


def _bounded(raw: RawEstimate, own: CalibratedFit, work: WorkAmounts) -> RawEstimate:
    """Return the prediction within its bounds; the p90 keeps what is beyond them."""
    seconds = bounds.bounded(own, work.time, raw.seconds)
    if seconds == raw.seconds:
        return raw
    spread = max(raw.spread, bounds.DOUBTFUL)
    p90 = max(raw.p90, seconds * exp(Z90 * spread))
    return raw._replace(seconds=seconds, p90=p90, spread=spread, doubt=bounds.DOUBT)


def _watts(target: Target, own: CalibratedFit | None, work: WorkAmounts, seconds: float) -> float | None:
    """Return the power while busy: from the measured joules of each amount, or from the data sheet."""
    if own is not None and own.power is not None:
        return own.power.watts(work.time, seconds)
    if target.power is None:
        return None
    return target.power * target.speed.busy


def _estimate(query: Query, target: Target, plan: ExecutionPlan, raw: RawEstimate) -> Estimate:
    memory = Bytes(int(raw.memory))
    missing = _missing_memory(memory, target.memory)
    return Estimate(
        device=target.name,
        model=query.profile.name,
        scope=query.profile.scope,
        doubt=raw.doubt,
        runtime=raw.runtime,
        precision=plan.precision,
        batch=query.batch,
        fits=not missing,
        needs=plan.needs,
        reasons=missing,
        seconds=Seconds(raw.seconds),
        p90=Seconds(raw.p90),
        memory=memory,
        available=target.memory,
        watts=None if raw.watts is None else Watts(raw.watts),
        joules=None if raw.watts is None else raw.watts * raw.seconds,
        confidence=_confidence(raw, exact=query.exact),
        basis=raw.basis,
        meets_slo=None if query.slo is None else raw.p90 <= query.slo,
    )


def _missing_memory(memory: Bytes, available: Bytes | None) -> tuple[str, ...]:
    if available is None or memory <= available:
        return ()
    return (f"memory: it takes {format_bytes(memory)}, and there are {format_bytes(available)}",)


def _confidence(raw: RawEstimate, *, exact: bool) -> str:
    if not exact and raw.basis != "measured":
        return "low"
    return confidence(raw.spread)


def _unknown_estimate(query: Query, target: Target, unknown: UnknownSpeed) -> Estimate:
    """Return what is known without a speed: the runtime, and on processors and GPUs the memory.

    Processors and GPUs compute in any precision; of other devices the precision is as unknown as the speed.
    """
    sized = query.precision is not None or target.kind in _ANY_PRECISION
    work = query.amounts(unknown.plan.precision)
    memory = Bytes(int(np.dot(unknown.plan.runtime.memory, work.memory))) if sized else None
    missing = () if memory is None else _missing_memory(memory, target.memory)
    return Estimate(
        device=target.name,
        model=query.profile.name,
        scope=query.profile.scope,
        runtime=unknown.plan.runtime.name,
        precision=unknown.plan.precision if sized else "",
        batch=query.batch,
        runs=None,
        fits=not missing,
        needs=unknown.plan.needs if sized else (),
        reasons=(*missing, unknown.reason),
        memory=memory,
        available=target.memory,
    )


def _infeasible_estimate(query: Query, target: Target, refusal: Infeasible) -> Estimate:
    return Estimate(
        device=target.name,
        model=query.profile.name,
        scope=query.profile.scope,
        runtime=refusal.runtime,
        batch=query.batch,
        runs=False,
        reasons=refusal.reasons,
        available=target.memory,
        meets_slo=None if query.slo is None else False,
    )
