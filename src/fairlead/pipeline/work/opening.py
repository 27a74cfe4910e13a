"""Open the stages of a worker: its source, and what runs each of the others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fairlead.pipeline.control import Channel, Message
from fairlead.pipeline.endpoints.sources import SOURCES
from fairlead.pipeline.programs.process import ProgramError
from fairlead.pipeline.programs.runner import ProgramRunner
from fairlead.pipeline.progress import ProgressPage
from fairlead.pipeline.spec import StageRole, StageSpec
from fairlead.pipeline.work.runners import FunctionRunner, SinkRunner, StageCounters, StageFaultError
from fairlead.pipeline.work.source_reader import SourceReader
from fairlead.pipeline.work.stateful import StatefulRunner, send_checkpoint

StageRunner = FunctionRunner | SinkRunner | ProgramRunner


@dataclass(slots=True)
class OpenStages:
    """The stages of a worker, in the order of its frames: at most one source, then the others."""

    source: SourceReader | None = None
    runners: list[StageRunner] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The index of the first stage with a runner."""
        return 0 if self.source is None else 1

    @property
    def program(self) -> ProgramRunner | None:
        """The program, which shares its process with no other stage."""
        return next((runner for runner in self.runners if isinstance(runner, ProgramRunner)), None)

    def restore(self, states: dict[int, dict[int, Any]]) -> None:
        """Let stages with state go on from checkpoints, which are taken out, or else without state."""
        for index, runner in enumerate(self.runners, self.first):
            if isinstance(runner, StatefulRunner):
                runner.begin_epoch(states.pop(index, {}))

    def hand_over(self) -> int:
        """Send the states of all streams to the coordinator, and return how many there are."""
        return sum(each.hand_over() for each in self.runners if isinstance(each, StatefulRunner))

    def counters(self) -> Iterator[StageCounters]:
        """Yield the counters of each stage."""
        if self.source is not None:
            yield self.source.counters
        for runner in self.runners:
            yield runner.counters


def open_stages(
    stages: Sequence[StageSpec], body: Message, channel: Channel, page: ProgressPage
) -> OpenStages:
    """Return the opened stages of a worker; StageFaultError, with the stage on its page."""
    opened = OpenStages()
    for index, stage in enumerate(stages):
        page.begin(index, 0, 0, 0.0)
        try:
            if stage.role is StageRole.SOURCE:
                source = SOURCES[stage.target].open(stage.options, body["folder"])
                opened.source = SourceReader(stage, source, body["stream"], body["trace_every"], page)
            else:
                opened.runners.append(_open_runner(index, stage, body, channel, page))
        except ProgramError as error:
            raise StageFaultError(f"{error}; {error.hint}" if error.hint else str(error)) from error
        except Exception as error:  # the user's class may raise anything
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise StageFaultError(f"cannot be opened: {text}") from error
    return opened


def _open_runner(
    index: int, stage: StageSpec, body: Message, channel: Channel, page: ProgressPage
) -> StageRunner:
    folder = body["folder"]
    if stage.role is StageRole.SINK:
        return SinkRunner(stage, folder, page, resume=body["resume"], dedupe=body["replayable"])
    if stage.role is StageRole.EXEC:
        return ProgramRunner(stage, folder, len(body["inputs"]))
    if stage.is_stateful:
        return StatefulRunner(stage, folder, partial(send_checkpoint, channel, index))
    return FunctionRunner(stage, folder)
