"""The source of a worker: its pace, the numbers of its frames, and what it counts."""

import math
import time
from dataclasses import dataclass
from typing import Any

from fairlead.pipeline.endpoints.reading import Captured, Pending
from fairlead.pipeline.endpoints.sources import FrameSource
from fairlead.pipeline.frame import FrameHeader, boottime
from fairlead.pipeline.observe.spans import trace_of
from fairlead.pipeline.progress import ProgressPage
from fairlead.pipeline.spec import StageSpec
from fairlead.pipeline.work.runners import StageCounters, StageFaultError, one_line
from fairlead.units import parse_duration


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A frame that a source has made."""

    header: FrameHeader
    value: Any
    began: float
    """When the source was asked for it: CLOCK_BOOTTIME."""


class SourceReader:
    """An open source, read frame by frame."""

    def __init__(
        self, stage: StageSpec, source: FrameSource, stream: int, trace_every: int, page: ProgressPage
    ) -> None:
        self.counters = StageCounters()
        self._stage = stage
        self._source = source
        self._stream = stream
        self._every = trace_every
        self._page = page
        self._rate: float | None = stage.options.get("rate")
        deadline = stage.options.get("deadline")
        self._deadline = parse_duration(deadline) if deadline else math.inf
        self._next = 0
        self.due = 0.0
        """When the next frame is to be read: CLOCK_BOOTTIME."""

    def begin_epoch(self, start: dict[int, int]) -> None:
        """Go on with the frame of a number, if the epoch begins with one."""
        if self._stream in start:
            self._next = start[self._stream]
            if self._source.replayable:
                self._source.seek(self._next)

    def read(self, epoch: int) -> SourceFrame | Pending | None:
        """Return the next frame; None: the source has ended. StageFaultError where it fails."""
        now = boottime()
        self.due = max(self.due + 1 / self._rate, now) if self._rate else 0.0
        self._page.begin(0, self._stream, self._next, now)
        begin = time.perf_counter()
        try:
            value: Any = self._source.read()
        except Exception as error:  # the user's generator may raise anything
            raise StageFaultError(f"raised {one_line(error)}") from error
        self.counters.process.observe(time.perf_counter() - begin)
        captured = boottime()
        if isinstance(value, Captured):
            self.counters.drop("overrun", value.dropped)
            value, captured = value.value, value.captured
        frame: SourceFrame | Pending | None = None
        if isinstance(value, Pending):
            frame = value
        elif value is not None:
            if fault := self._stage.outputs.objection(value):
                raise StageFaultError(f"made {fault}: its output is {self._stage.outputs}")
            frame = self._frame(value, captured, now, epoch)
        self._page.end()
        return frame

    def _frame(self, value: Any, captured: float, began: float, epoch: int) -> SourceFrame:
        trace = trace_of(self._stream, self._next, self._every)
        deadline = captured + self._deadline
        header = FrameHeader(self._stream, self._next, captured, deadline, trace=trace, epoch=epoch)
        self._next += 1
        self.counters.frames_out += 1
        return SourceFrame(header, value, began)
