"""The replicas of a run that follow its load: what its status says of each stage, and when one should change.

Pure: the status and the time come in as arguments.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.pipeline.replan.scaler import PAUSE, ReplicaScaler, ScaleWish, StageLoad
from fairlead.pipeline.spec import PipelineSpec, StageSpec

WINDOW: Final = 1.0
"""Seconds from one measurement to the next."""
_DROPS_OVER: Final = 4.0
"""Seconds over which drops are counted: the status has the rates of as many."""
_TOO_SLOW: Final = ("oldest", "newest", "superseded", "expired")
"""Drops that faster stages behind an edge would avoid."""
_SPARE: Final = 0.25
"""A part of a core that counts as one more: nothing is busy for all of its time."""
Document = Mapping[str, Any]
Room = Callable[[StageSpec, Document], int | None]


@dataclass(frozen=True, slots=True)
class ScaledStage:
    """A change of the replicas of one stage."""

    stage: str
    before: int
    after: int
    reason: str


class RunScaling:
    """The stages of a run whose replicas follow its load."""

    def __init__(self, room: Room | None = None, pause: float = PAUSE) -> None:
        """Take what says for how many replicas of a stage there are cores; None: `room_of`.

        `pause`: seconds after a change in which nothing is measured.
        """
        self._pause = pause
        self._room: Room = room_of if room is None else room
        self._scalers: dict[str, ReplicaScaler] = {}
        self._drops: dict[str, deque[tuple[float, int]]] = {}
        self._next = 0.0
        self._current: ScaledStage | None = None
        self._changes: dict[str, tuple[int, ScaledStage]] = {}
        """By stage: how many there were, and the last one."""

    def propose(self, status: Document, spec: PipelineSpec, now: float) -> ScaledStage | None:
        """Return a change, at most once in a window; `spec` has the replicas of now."""
        if now < self._next:
            return None
        self._next = now + WINDOW
        scaled = [stage for stage in spec.stages if stage.scale is not None and stage.canary is None]
        known = {stage.name for stage in scaled}
        self._scalers = {name: scaler for name, scaler in self._scalers.items() if name in known}
        wishes = [(stage, self._wish(stage, status, now)) for stage in scaled]
        return next(
            (
                ScaledStage(stage.name, stage.replicas, wish.replicas, wish.reason)
                for stage, wish in wishes
                if wish is not None
            ),
            None,
        )

    def begin(self, change: ScaledStage) -> None:
        """Take note that a change is carried out now."""
        self._current = change

    def on_move_ended(self, *, done: bool, now: float) -> None:
        """Take how a change, or another move of the run, has ended."""
        change, self._current = self._current, None
        if change is not None and done:
            number = self._changes[change.stage][0] if change.stage in self._changes else 0
            self._changes[change.stage] = number + 1, change
        for name, scaler in self._scalers.items():
            if change is not None and change.stage == name and not done:
                scaler.on_given_up(now)
            else:
                scaler.on_changed(now)

    def document(self, spec: PipelineSpec) -> list[dict[str, Any]]:
        """Return what the status says of the stages whose replicas follow the load."""
        return [self._entry(stage) for stage in spec.stages if stage.scale is not None]

    def _entry(self, stage: StageSpec) -> dict[str, Any]:
        assert stage.scale is not None
        number, last = self._changes.get(stage.name, (0, None))
        scaler = self._scalers.get(stage.name)
        body = {"stage": stage.name, "replicas": stage.replicas, "min": stage.scale.least}
        return body | {
            "max": stage.scale.most,
            "changes": number,
            "last": last and {"from": last.before, "to": last.after, "reason": last.reason},
            "held_by": scaler.held_by if scaler is not None else "",
        }

    def _wish(self, stage: StageSpec, status: Document, now: float) -> ScaleWish | None:
        assert stage.scale is not None
        scaler = self._scalers.setdefault(stage.name, ReplicaScaler(stage.scale, self._pause))
        scaler.scale = stage.scale
        return scaler.observe(self._load(stage, status, now), now)

    def _load(self, stage: StageSpec, status: Document, now: float) -> StageLoad:
        entry = next(each for each in status["stages"] if each["name"] == stage.name)
        edges = [each for each in status["edges"] if each["to"] == stage.name]
        drops = sum(each["dropped"].get(reason, 0) for each in edges for reason in _TOO_SLOW)
        return StageLoad(
            stage.replicas,
            busy=entry["busy"],
            rate=sum(each["rate"] for each in edges),
            held=sum(each["depth"] for each in edges),
            size=sum(each["size"] for each in edges) * stage.replicas,
            age=max((each["age"] for each in edges), default=0.0),
            drop_rate=self._drop_rate(stage.name, drops, now),
            cores=self._room(stage, status),
        )

    def _drop_rate(self, name: str, drops: int, now: float) -> float:
        counts = self._drops.setdefault(name, deque())
        while len(counts) > 1 and now - counts[0][0] > _DROPS_OVER:
            counts.popleft()
        counts.append((now, drops))
        since, before = counts[0]
        return max(0, drops - before) / (now - since) if now > since else 0.0


def with_replicas(spec: PipelineSpec, change: ScaledStage) -> PipelineSpec:
    """Return a pipeline after a change."""
    stages = (
        replace(stage, replicas=change.after) if stage.name == change.stage else stage
        for stage in spec.stages
    )
    return replace(spec, stages=tuple(stages))


def room_of(stage: StageSpec, status: Document) -> int | None:
    """Return for how many replicas of a stage its hosts have cores; None: a host does not say.

    A process that is busy all the time counts as one core, whatever it waits for in its calls. Replicas that
    are pinned share the cores that are stated.
    """
    hosts = next(each["hosts"] for each in status["stages"] if each["name"] == stage.name)
    free = 0.0
    for host in hosts:
        cores = _cores_of(host, status)
        if cores is None:
            return None
        if stage.cores:
            cores = min(cores, len(stage.cores))
        free += max(0.0, cores - _busy_on(host, status, stage.name if stage.cores else ""))
    return stage.replicas + math.floor(free + _SPARE)


def _cores_of(host: str, status: Document) -> int | None:
    body = status if host == "local" else status.get("hosts", {}).get(host, {})
    cores = body.get("cores")
    return int(cores) if cores else None


def _busy_on(host: str, status: Document, only: str) -> float:
    """Return how many cores the stages of a host keep busy; `only`: those of one stage."""
    shares = (
        float(each["busy"]) * len(each["workers"]) / len(each["hosts"])
        for each in status["stages"]
        if host in each["hosts"] and (not only or each["name"] == only)
    )
    return sum(shares)
