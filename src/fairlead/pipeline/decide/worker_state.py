"""What the coordinator of a run knows of one worker. Pure."""

from dataclasses import dataclass, field

from fairlead.pipeline.fuse import WorkerPlan
from fairlead.pipeline.progress import WorkedOn
from fairlead.pipeline.run_events import Acknowledged
from fairlead.pipeline.spec import StageRole
from fairlead.units import Bytes, format_bytes, format_duration


@dataclass(slots=True)
class WorkerState:
    """What the coordinator knows of one worker."""

    plan: WorkerPlan
    running: bool = True
    ready: bool = False
    opened: bool = False
    """It was ready before: its sink holds frames of this run."""
    reads: bool = False
    """Of a source: it has been started."""
    done: bool = False
    reason: str = ""
    """Why it is about to end."""
    restarts: list[float] = field(default_factory=list)
    fatal: tuple[int, int, int] | None = None
    """The stage, the stream and the frame that ended it last."""
    skip: tuple[tuple[int, int], ...] = ()

    @property
    def is_source(self) -> bool:
        """Whether frames begin in it."""
        return self.plan.stages[0].role is StageRole.SOURCE

    def where(self, at: WorkedOn) -> str:
        """Return the stage and the frame that it is in."""
        stage = self.plan.stages[min(at.stage, len(self.plan.stages) - 1)]
        frame = f", frame {at.sequence}" if at.since else ""
        return f"stage {stage.name}{frame}"

    def after_last(self, at: WorkedOn) -> Acknowledged:
        """Return where a source that cannot be read again goes on counting."""
        return {at.stream: at.sequence + 1} if self.is_source else {}

    def excess(self, call: WorkedOn | None, held: Bytes | None, now: float) -> str:
        """Return which limit the call that it is in, or the memory that it holds, exceeds; empty: none."""
        timeout = self.plan.stages[call.stage].timeout if call is not None and call.since else None
        if call is not None and timeout is not None and now - call.since > timeout:
            return f"blocked for longer than its timeout of {format_duration(timeout)}"
        limit = self.plan.stages[0].memory
        if held is not None and limit is not None and held > limit:
            return f"its process holds {format_bytes(held)}, more than its memory of {format_bytes(limit)}"
        return ""
