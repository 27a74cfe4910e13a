"""How many ordered replicas of the slowest stage pay on one machine: they beat a split. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.pipeline.plan.cut import within
from fairlead.pipeline.plan.explain import HOP_S, milliseconds
from fairlead.units import format_number, pluralize

BUSY_HOP: Final = 3.0
"""How many times as long a hop takes where the cores and their caches are busy with the replicas themselves:
measured from 0.4 to 1.2 ms for a frame of 720p. Replicas must pay then as well."""


@dataclass(frozen=True, slots=True)
class StageTime:
    """A stage of one machine, in the order of its frames."""

    name: str
    seconds: float
    may_repeat: bool
    """It keeps no state, joins nothing, and is neither a source nor a sink."""


@dataclass(frozen=True, slots=True)
class ReplicaChoice:
    """What replicas of one stage do for a machine."""

    stage: str
    """The stage with replicas; empty: one process is best."""
    replicas: int
    period_s: float
    one_process_s: float
    """The period with all stages in one process."""
    slowest: str
    """The stage that takes longest; replicas of it are not always possible."""
    doubtful: str = ""
    """The stage whose replicas would gain with hops as on idle cores, and lose with those of busy ones."""
    doubtful_gain: float = 1.0


def choose_replicas(stages: Sequence[StageTime], cores: int, hop_s: float = HOP_S) -> ReplicaChoice:
    """Return the stage whose replicas give the smallest period, with as few of them as that needs.

    None is proposed that would lose where hops take as long as between busy cores.
    """
    total = sum(stage.seconds for stage in stages)
    slowest = max(stages, key=lambda stage: stage.seconds, default=StageTime("", 0.0, False)).name
    best = ReplicaChoice("", 1, total, total, slowest)
    for index, stage in enumerate(stages):
        for number in range(2, cores + 1) if stage.may_repeat else ():
            period = _period(stages, index, number, cores, hop_s)
            if not within(best.period_s, period):
                best = ReplicaChoice(stage.name, number, period, total, slowest)
    if not best.stage:
        return best
    index = [stage.name for stage in stages].index(best.stage)
    if _period(stages, index, best.replicas, cores, BUSY_HOP * hop_s) >= total:
        return ReplicaChoice("", 1, total, total, slowest, best.stage, total / best.period_s)
    return best


def replica_sentence(choice: ReplicaChoice, cores: int, hop_s: float = HOP_S) -> str:
    """Return what replicas do, for people."""
    if choice.doubtful:
        return (
            f"Replicas: none; those of {choice.doubtful} would be {format_number(choice.doubtful_gain)}x as "
            f"fast as one process if a hop takes {milliseconds(hop_s)} of CPU, and slower if it takes "
            f"{milliseconds(BUSY_HOP * hop_s)}, as between busy cores."
        )
    if not choice.stage:
        why = (
            "the machine has one core"
            if cores == 1
            else f"a second process of any stage gains less than its hops take ({milliseconds(hop_s)} of CPU)"
        )
        return f"Replicas: none; {why}."
    gain = choice.one_process_s / choice.period_s
    return (
        f"Replicas: {choice.replicas} of {choice.stage} on {pluralize(cores, 'core')} would have a period of "
        f"{milliseconds(choice.period_s)}, {format_number(gain)}x as fast as one process."
    )


def _period(stages: Sequence[StageTime], index: int, replicas: int, cores: int, hop_s: float) -> float:
    """Return the period with one process before the stage, its replicas, and one process behind it."""
    before = sum(stage.seconds for stage in stages[:index])
    behind = sum(stage.seconds for stage in stages[index + 1 :])
    hops = (index > 0) + (index < len(stages) - 1)
    own = stages[index].seconds + hops * hop_s / 2
    processes = [own / replicas]
    if index > 0:
        processes.append(before + hop_s / 2)
    if index < len(stages) - 1:
        processes.append(behind + hop_s / 2)
    work = before + stages[index].seconds + behind + hops * hop_s
    return max(*processes, work / cores)
