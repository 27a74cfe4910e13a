"""What leaves a worker: results as frames on every output edge, marks of frames that end here, the end."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fairlead.errors import FairleadError
from fairlead.pipeline.frame import FrameHeader, boottime
from fairlead.pipeline.observe.spans import FrameTracer
from fairlead.pipeline.work.outlet import Outlet
from fairlead.pipeline.work.runners import StageFaultError
from fairlead.pipeline.work.values import encode_value, end_of, mark_of


class Emission:
    """The output edges of a worker: each of them gets every result."""

    def __init__(self, outlets: Sequence[Outlet], tracer: FrameTracer) -> None:
        self._outlets = outlets
        self._tracer = tracer

    def send(self, header: FrameHeader, values: Sequence[Any]) -> None:
        """Send the results of a frame, or its mark if there are none; StageFaultError for other values."""
        if not values:
            self.mark(header)
        for value in values:
            try:
                parts, arrays = encode_value(value)
            except (FairleadError, TypeError, ValueError) as error:
                raise StageFaultError(f"returned what cannot travel: {error}") from error
            full = replace(header, parts=parts)
            for outlet in self._outlets:
                now = boottime() if full.trace else 0.0
                outlet.send(full, arrays)
                if full.trace:
                    self._tracer.on_send(full, outlet.name, now, boottime())

    def mark(self, header: FrameHeader) -> None:
        """Say that a frame goes no further, where a stage behind waits for it."""
        for outlet in self._outlets:
            if outlet.marked:
                outlet.send(mark_of(header), ())

    def end(self, epoch: int) -> None:
        """End every edge."""
        for outlet in self._outlets:
            outlet.send_end(end_of(epoch))
