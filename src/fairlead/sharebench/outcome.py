"""EngineOutcome: what became of one engine in one arrangement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairlead.sharebench.events import EngineEvents
from fairlead.sharebench.workload import ServingEngine


@dataclass(frozen=True, slots=True)
class EngineOutcome:
    """One engine, from its submission to its end; times are seconds since the epoch."""

    engine: ServingEngine
    submitted: float
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    reason: str = ""
    """Why it waited or failed, by the queue or its own last line."""
    job: str = ""
    """The id of its job; empty: a plain process."""
    pid: int = 0
    """Of a plain process."""
    events: EngineEvents | None = None
    """What it wrote down; None: nothing."""

    @property
    def failed(self) -> bool:
        """Whether it did not serve all queries to the end."""
        return self.exit_code != 0 or self.events is None or not self.events.digest


def with_events(outcomes: Iterable[EngineOutcome], events: Mapping[int, EngineEvents]) -> list[EngineOutcome]:
    """Return outcomes with what their engines wrote down."""
    by_job = {each.job: each for each in events.values() if each.job}
    return [
        replace(outcome, events=by_job.get(outcome.job) if outcome.job else events.get(outcome.pid))
        for outcome in outcomes
    ]
