"""What a worker tells its coordinator: its counters twice a second, and why it fails."""

import os
import sys
import time
from collections.abc import Iterable
from typing import Final, NoReturn

from fairlead.pipeline.control import Channel
from fairlead.pipeline.observe.spans import FrameTracer
from fairlead.pipeline.spec import StageSpec
from fairlead.pipeline.work.intake import Intake
from fairlead.pipeline.work.outlet import Outlet
from fairlead.pipeline.work.runners import StageCounters, StageFaultError

REPORT_PERIOD: Final = 0.5
FAILED: Final = 1
"""The exit code of a worker that cannot go on."""


class WorkerReports:
    """The reports of one worker; spans of traced frames travel before each."""

    def __init__(self, channel: Channel, tracer: FrameTracer) -> None:
        self._channel = channel
        self._tracer = tracer
        self._sent = time.monotonic()

    @property
    def due_in(self) -> float:
        """The seconds until the next report is due."""
        return self._sent + REPORT_PERIOD - time.monotonic()

    def send(
        self, stages: Iterable[tuple[StageSpec, StageCounters]], edges: Iterable[Intake | Outlet]
    ) -> None:
        """Report everything that was counted; without a coordinator, end this process."""
        report = {
            "event": "report",
            "stages": {stage.name: counters.to_json() for stage, counters in stages},
            "edges": {end.name: end.counts() for end in edges},
        }
        self._sent = time.monotonic()
        try:
            self._tracer.send(self._channel)
            self._channel.send(report)
        except OSError:
            sys.exit(FAILED)

    def fail(self, error: StageFaultError) -> NoReturn:
        """Say why, and end this process; the coordinator decides what follows."""
        self._tracer.send(self._channel)
        self._channel.send({"event": "failed", "line": str(error)})
        os._exit(FAILED)
