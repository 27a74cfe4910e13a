"""A move as it is proposed, and the moves of a run as people and programs see them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from fairlead.pipeline.fuse import RunPlan
from fairlead.units import format_duration, pluralize


@dataclass(frozen=True, slots=True)
class ProposedMove:
    """Hosts that suit movable stages better than those of now."""

    nodes: Mapping[str, str]
    """By stage."""
    reason: str
    """Which measured value left the plan."""
    period_s: float = 0.0
    """Of the present hosts, by what is measured now."""
    planned_period_s: float = 0.0
    """Of the proposed hosts."""


class MovePlanner(Protocol):
    """What proposes moves while a pipeline runs."""

    def propose(self, status: Mapping[str, Any], now: float) -> ProposedMove | None:
        """Return a move that pays, by the status of the run; None: stages stay where they are."""
        ...

    def on_move_ended(self, nodes: Mapping[str, str] | None, now: float) -> None:
        """Take where stages are after a move; None: it was given up."""
        ...

    def close(self) -> None:
        """End what measures links."""
        ...


@dataclass(frozen=True, slots=True)
class MovedStage:
    """One stage of a move."""

    stage: str
    source: str
    target: str
    replicas: tuple[int, int] | None = None
    """How many processes it had and has, where their number alone has changed."""

    def __str__(self) -> str:
        if self.replicas is not None:
            return f"{self.stage} from {self.replicas[0]} to {pluralize(self.replicas[1], 'replica')}"
        if self.source == self.target:
            return f"{self.stage} on {self.source}"
        return f"{self.stage} from {self.source} to {self.target}"


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """One move that was carried out."""

    stages: tuple[MovedStage, ...]
    proposed: ProposedMove
    began: float
    """Seconds since the start of the run."""
    seconds: float = 0.0
    """From the start of the first new worker until the last old one was drained."""
    sequence: int = 0
    """The first frame on the new path."""
    replayed: str = ""
    """Why frames of the old path were replayed; empty: it was drained."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as the status has it."""
        stages = [
            {"name": each.stage, "from": each.source, "to": each.target}
            | ({"replicas": list(each.replicas)} if each.replicas is not None else {})
            for each in self.stages
        ]
        body = {key: value for key, value in asdict(self).items() if key not in ("stages", "proposed")}
        proposed = self.proposed
        periods = {"period_s": proposed.period_s, "planned_period_s": proposed.planned_period_s}
        return {"stages": stages, "reason": proposed.reason} | periods | body


@dataclass(slots=True)
class RunMoves:
    """The moves of a run, and the one that is under way."""

    began: float
    records: list[MoveRecord] = field(default_factory=list)
    current: MoveRecord | None = None

    def begin(self, old: RunPlan, new: RunPlan, proposed: ProposedMove, now: float) -> str:
        """Return a line for a move that begins; empty: no stage moves, names alone change."""
        stages = tuple(_moved(old, new))
        if not stages:
            return ""
        self.current = MoveRecord(stages, proposed, now - self.began)
        line = f"moving {_text(stages)}: {proposed.reason}"
        if not proposed.period_s:
            return line
        periods = f"period {proposed.period_s * 1e3:.4g} ms, planned {proposed.planned_period_s * 1e3:.4g} ms"
        return f"{line}; {periods}"

    def end(self, done: bool, sequence: int, reason: str, now: float) -> str:
        """Return a line for the move that has ended; empty: there was none."""
        record, self.current = self.current, None
        if record is None:
            return ""
        if not done:
            names = ", ".join(each.stage for each in record.stages)
            return f"the move of {names} was given up: {reason}"
        seconds = now - self.began - record.began
        self.records.append(
            MoveRecord(record.stages, record.proposed, record.began, seconds, sequence, reason)
        )
        replayed = f"; frames were replayed: {reason}" if reason else ""
        return f"moved {_text(record.stages)} at frame {sequence} in {format_duration(seconds)}{replayed}"

    def document(self) -> list[dict[str, Any]]:
        """Return the moves as the status has them."""
        return [record.to_json() for record in self.records]


def hosts_of(plan: RunPlan) -> dict[str, str]:
    """Return the host of each movable stage."""
    stages = ((stage.name, worker.host) for worker in plan.workers for stage in worker.stages)
    return {name: host for name, host in stages if name in plan.movable}


def _moved(old: RunPlan, new: RunPlan) -> Iterator[MovedStage]:
    """Yield the stages that are in other places, or have other settings."""
    for before, after in zip(old.spec.stages, new.spec.stages, strict=True):
        places = old.spec.places_of(before), new.spec.places_of(after)
        is_elsewhere = {at for _, at in places[0]} != {at for _, at in places[1]}
        is_scaled = before.replicas != after.replicas
        if not is_elsewhere and not is_scaled and before.settings == after.settings:
            continue
        source, target = (_hosts(each) for each in places)
        if is_elsewhere and source == target:
            source, target = (", ".join(dict.fromkeys(_addresses(each))) for each in places)
        is_same = replace(before.settings, replicas=0) == replace(after.settings, replicas=0)
        numbers = (before.replicas, after.replicas) if is_same and source == target else None
        yield MovedStage(after.name, source, target, numbers if is_scaled else None)


def _hosts(places: Sequence[tuple[str, str]]) -> str:
    return ", ".join(dict.fromkeys(host for host, _ in places))


def _addresses(places: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{host}@{address}" if address else host for host, address in places]


def _text(stages: tuple[MovedStage, ...]) -> str:
    return ", ".join(map(str, stages))
