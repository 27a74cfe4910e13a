"""Why a job of `run` waits: one updated line on a terminal, a line for each change elsewhere."""

import re
import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

from fairlead.cli.live.line import UpdatedLine
from fairlead.cli.local.cells import short_duration
from fairlead.job import LocalJob
from fairlead.local.view import WaitDecision

_REPEAT: Final = 30.0
"""Seconds between two lines about the same reason."""
_NUMBER: Final = re.compile(r"[0-9][0-9.,]*")


class QueueLine:
    """Shows why a job waits. A terminal that is gone never fails it."""

    def __init__(
        self, stream: TextIO | None, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._quiet = quiet or stream is None
        self._clock = clock
        self._shown = UpdatedLine(stream)
        self._live = not self._quiet and self._shown.is_live
        self._lines: dict[str, float] = {}
        self._last = ""

    def waits(self, job: LocalJob, decision: WaitDecision) -> None:
        """Show the position of a job, the reason, and when it is expected to start."""
        text = wait_text(job, decision)
        if self._quiet or text == self._last:
            return
        self._last = text
        if self._live and not decision.faulty:
            self._shown.draw(fitted(text, short_wait_text(job, decision), self._shown.width))
        elif self._is_due(decision.reason):  # a fault says what to do: it is never cut
            self.clear()
            self._shown.write(f"{text}\n")

    def line(self, text: str) -> None:
        """Print one line, not again for a while; the line about the queue is drawn again below it."""
        if not self._quiet and self._is_due(text):
            self.error(text)

    def _is_due(self, text: str) -> bool:
        """Return whether to print a text; one with other numbers is the same text."""
        kind = _NUMBER.sub("#", text)
        if self._clock() < self._lines.get(kind, float("-inf")) + _REPEAT:
            return False
        self._lines[kind] = self._clock()
        return True

    def error(self, text: str) -> None:
        """Print one line, also if this command is to be quiet."""
        self.clear()
        self._last = ""
        self._shown.write(f"fairlead: run: {text}\n")

    def clear(self) -> None:
        """Erase the line about the queue."""
        self._shown.clear()


def wait_text(job: LocalJob, decision: WaitDecision) -> str:
    """Return one line: the position of a job, the reason, and when it is expected to start."""
    soon = f"; expected to start in {_soon(decision)}" if decision.starts_in is not None else ""
    return f"fairlead: job {job.id} is number {decision.position} in the queue: {decision.reason}{soon}"


def short_wait_text(job: LocalJob, decision: WaitDecision) -> str:
    """Return the same for a narrow terminal, the reason last: its end may be cut off."""
    soon = f", starts in about {_soon(decision)}" if decision.starts_in is not None else ""
    return f"fairlead: job {job.id}: #{decision.position}{soon}: {decision.reason}"


def fitted(text: str, short: str, width: int) -> str:
    """Return what fits into one line of a terminal: a line that wraps could not be erased."""
    shown = text if len(text) < width else short
    return shown if len(shown) < width else f"{shown[: max(0, width - 4)]}..."


def _soon(decision: WaitDecision) -> str:
    return short_duration(max(1.0, decision.starts_in or 0.0))


def standard_error(quiet: bool) -> QueueLine:
    """Return the line on the standard error of this process."""
    return QueueLine(sys.stderr, quiet)
