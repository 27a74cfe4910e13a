"""What enforcement does and costs: an engine that exceeds its share, an engine inside it, a killed daemon."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Final

from fairlead.limiter.mps import MpsFolder
from fairlead.limiter.mps_daemon import MpsDaemon
from fairlead.limiter.process import RunningProcess
from fairlead.sharebench.comparison import Comparison
from fairlead.sharebench.events import EngineEvents
from fairlead.sharebench.outcome import EngineOutcome
from fairlead.sharebench.queue import LIVE, LocalQueue, Submission
from fairlead.sharebench.turns import BLOCK, TurnTable, block_rates
from fairlead.sharebench.workload import MIB, ServingEngine, ServingKind
from fairlead.units import Bytes

STATED: Final = "2Gi"
"""What the offender states."""
TAKEN: Final = Bytes(6144 * MIB)
"""What it takes beside its network."""
ROOM: Final = 1.25
"""What a neighbour states, over what its kind used alone."""
COST_BARS: Final = {"watchdog": 0.98, "mps": 0.97}
"""The least throughput inside a share, over that without a limiter."""
MOST_STOP: Final = 1.0
"""Seconds in which an engine that exceeds its share must be stopped."""
_LONGER: Final = 20
"""How many times the queries of the others the offender has: it must not end by itself."""
_PAUSE: Final = 0.05
_WAIT: Final = 120.0
"""Seconds for engines to begin serving."""


def enforcement(comparison: Comparison, *, mps: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each experiment with its result, as it ends."""
    limiters = ("watchdog", *(("mps",) if mps else ()))
    for limiter in limiters:
        yield f"exceeds its share, {limiter}, by the driver", exceeds(comparison, limiter, "driver")
    yield "exceeds its share, watchdog, by the framework", exceeds(comparison, "watchdog", "framework")
    if mps:
        yield "MPS daemon killed", killed_daemon(comparison)
    yield "cost inside the share", cost(comparison, ("none", *limiters))


def exceeds(comparison: Comparison, limiter: str, by: str) -> dict[str, Any]:
    """Run an engine that takes more than it states beside neighbours that do not."""
    with comparison.measured(f"exceeds its share, {limiter}, by the {by}"):
        queue = comparison.new_queue(learned=False)
        offender = ServingEngine("offender", replace(comparison.plan.kinds[0], cache=Bytes(0)))
        neighbours = [ServingEngine(f"neighbour-{kind.name}", kind) for kind in comparison.plan.kinds[1:]]
        jobs = [_job(comparison, engine, limiter) for engine in neighbours]
        jobs.append(_offender(comparison, offender, limiter, by))
        *others, own = comparison.wait(queue, queue.submit(jobs))
    result = _offence(own)
    comparison.report(f"{offender.name}: {result['how']} after {result['seconds']} s")
    return {
        **result,
        "neighbours_failed": [_why(each) for each in others if each.failed],
        "neighbours_outputs_equal": _equal(comparison, others),
    }


def _offence(own: EngineOutcome) -> dict[str, Any]:
    """Return how an offender ended, and how long after it asked for the memory."""
    events = own.events or EngineEvents(0)
    if events.refused is not None and events.grows is not None:
        how, seconds = "refused", events.refused - events.grows
    elif events.grew is not None and own.ended is not None and not events.digest:
        how, seconds = "stopped", own.ended - events.grew
    else:
        how, seconds = ("not stopped" if events.digest else "failed before it took more"), None
    return {
        "how": how,
        "seconds": None if seconds is None else round(seconds, 3),
        "held": how in ("refused", "stopped") and seconds is not None and seconds <= MOST_STOP,
        "exit_code": own.exit_code,
        "reason": own.reason or events.error,
    }


def cost(comparison: Comparison, limiters: Sequence[str]) -> dict[str, Any]:
    """Run an engine inside its share under each limiter, in turns; return their throughput over none's.

    All of them hold their network at the same time, on one core, and serve one after the other in blocks of
    some tenths of a second: one machine is not equally fast all the time.
    """
    rounds = max(1, comparison.plan.command.queries // BLOCK)
    with comparison.measured("cost inside the share"), TurnTable.open(limiters) as table:
        queue = comparison.new_queue(learned=False)
        jobs = [_turning(comparison, table, limiter, rounds * BLOCK) for limiter in limiters]
        submitted = queue.submit(jobs)
        if not _take_turns(comparison, queue, table, limiters, rounds):
            queue.close()
        outcomes = comparison.wait(queue, submitted)
    pairs = list(zip(limiters, outcomes, strict=True))
    rates = {
        limiter: block_rates(outcome.events.latencies)
        for limiter, outcome in pairs
        if outcome.events is not None and not outcome.failed
    }
    return {**cost_figures(rates), "failed": [_why(outcome) for _, outcome in pairs if outcome.failed]}


def _turning(comparison: Comparison, table: TurnTable, limiter: str, queries: int) -> Submission:
    """Return an engine inside its share that serves when it is its turn."""
    kind, command = comparison.plan.kinds[-1], replace(comparison.plan.command, queries=queries)
    words = command.words(kind, "--turns", table.path(limiter), "--core", str(max(os.sched_getaffinity(0))))
    engine = ServingEngine(f"cost-{limiter}", kind)
    return engine, _options(comparison, _share(comparison, kind), limiter), words


def _take_turns(
    comparison: Comparison, queue: LocalQueue, table: TurnTable, limiters: Sequence[str], rounds: int
) -> bool:
    """Let the engines serve in turns; False: one of them does not. The order changes with every round."""
    if not _await_serving(comparison, queue, len(limiters)):
        return False
    orders = (limiters[number % len(limiters) :] for number in range(rounds))
    firsts = (limiters[: number % len(limiters)] for number in range(rounds))
    turns = (limiter for order, first in zip(orders, firsts, strict=True) for limiter in (*order, *first))
    return all(table.take(limiter, _WAIT) for limiter in turns)


def cost_figures(rates: dict[str, list[float]]) -> dict[str, Any]:
    """Return the median throughput of each limiter, and the median of its ratios to none in each round."""
    result: dict[str, Any] = {}
    for limiter, values in rates.items():
        result[f"{limiter}_queries_per_s"] = round(median(values), 1)
        if limiter != "none" and "none" in rates:
            ratios = sorted(own / other for own, other in zip(values, rates["none"], strict=True))
            ratio = median(ratios)
            result[f"{limiter}_ratio"] = round(ratio, 4)
            result[f"{limiter}_ratio_middle_half"] = [
                round(ratios[(len(ratios) - 1) * quarter // 4], 4) for quarter in (1, 3)
            ]
            result[f"{limiter}_in_bar"] = ratio >= COST_BARS[limiter]
    result["rounds"] = len(rates.get("none", ()))
    return result


def killed_daemon(comparison: Comparison) -> dict[str, Any]:
    """Kill the MPS daemon while engines serve; see how their jobs end, and that the next one runs."""
    with comparison.measured("MPS daemon killed"):
        queue = comparison.new_queue(learned=False)
        engines = [ServingEngine(f"client-{kind.name}", kind) for kind in comparison.plan.kinds[:3]]
        jobs = [_job(comparison, engine, "mps", longer=_LONGER) for engine in engines]
        submitted = queue.submit(jobs)
        serving = _await_serving(comparison, queue, len(engines))
        daemon = _daemon_of(serving[0].mps) if serving else None
        if daemon is not None:
            daemon.kill()
        killed = time.time()
        outcomes = comparison.wait(queue, submitted)
        after = ServingEngine("after", comparison.plan.kinds[0])
        (after_outcome,) = comparison.wait(queue, queue.submit([_job(comparison, after, "mps")]))
    ends = [outcome.ended - killed for outcome in outcomes if outcome.ended is not None]
    return {
        "daemon_killed": daemon is not None,
        "all_ended": len(ends) == len(outcomes),
        "last_ended_s": round(max(ends), 3) if ends else None,
        "exit_codes": [outcome.exit_code for outcome in outcomes],
        "reasons": list(dict.fromkeys(outcome.reason for outcome in outcomes)),
        "next_job_runs": not after_outcome.failed,
        "next_job_under_mps": bool(after_outcome.events and after_outcome.events.mps),
        "next_outputs_equal": _equal(comparison, [after_outcome]),
    }


def _await_serving(comparison: Comparison, queue: LocalQueue, number: int) -> list[EngineEvents]:
    """Wait until this many engines serve, and return them; none: they ended, or it took too long."""
    end = time.monotonic() + _WAIT
    while time.monotonic() < end:
        serving = [each for each in comparison.events().values() if each.ready is not None]
        if len(serving) >= number:
            return serving
        if not any(job["state"] in LIVE for job in queue.jobs()):
            break
        time.sleep(_PAUSE)
    return []


def _daemon_of(pipe: str) -> RunningProcess | None:
    """Return the living daemon in the pipe directory that our own engines got."""
    return MpsDaemon(MpsFolder(os.path.dirname(pipe)), "").process() if pipe else None


def _job(comparison: Comparison, engine: ServingEngine, limiter: str, longer: int = 1) -> Submission:
    """Return an engine inside the share that it states."""
    command = replace(comparison.plan.command, queries=comparison.plan.command.queries * longer)
    return engine, _options(comparison, _share(comparison, engine.kind), limiter), command.words(engine.kind)


def _offender(comparison: Comparison, engine: ServingEngine, limiter: str, by: str) -> Submission:
    plan = comparison.plan
    command = replace(plan.command, queries=plan.command.queries * _LONGER)
    words = command.words(engine.kind, "--grow", str(TAKEN), "--grow-by", by)
    return engine, _options(comparison, STATED, limiter), words


def _options(comparison: Comparison, size: str, limiter: str) -> tuple[str, ...]:
    if not comparison.plan.uuid:
        return ("--gpus", "0")
    return ("--gpu-mem", size, "--device", comparison.plan.uuid, "--limiter", limiter)


def _share(comparison: Comparison, kind: ServingKind) -> str:
    """Return the share that an engine of a kind states: some more than it used alone."""
    return f"{round(comparison.used_mib(kind) * ROOM) + 256}Mi"


def _equal(comparison: Comparison, outcomes: Sequence[EngineOutcome]) -> bool:
    digests = [(each.events.digest if each.events else "", each.engine.kind.name) for each in outcomes]
    return all(digest == comparison.solo[name].digest for digest, name in digests)


def _why(outcome: EngineOutcome) -> str:
    error = outcome.events.error if outcome.events is not None else ""
    return f"{outcome.engine.name}: exit code {outcome.exit_code}: {outcome.reason or error}"
