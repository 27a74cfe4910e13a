"""Sources of measured use: what each can do, and what can be set."""

from collections.abc import Sequence
from typing import Protocol

from fairlead.use import UseReport


class UseSource(Protocol):
    """A place where measured use is read. Faults are part of a report: neither method raises for them."""

    async def read(self, now: float) -> UseReport:
        """Return the newest samples; `now` is the time of the reader, in seconds since the epoch."""

    async def backfill(self, now: float, window: float) -> Sequence[UseReport]:
        """Return reports of the last `window` seconds, oldest first; none if the source keeps no history."""


class NoTelemetry:
    """A source without measurements: pods are placed by their requests."""

    async def read(self, now: float) -> UseReport:
        """Return an empty report."""
        return UseReport(now, "none", detail="telemetry is off; set usage.source to turn it on")

    async def backfill(self, now: float, window: float) -> Sequence[UseReport]:
        """Return no reports."""
        return ()
