"""Print each step of a long command and its duration, on a terminal or in a log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

_BAR: Final = 24
_QUIET: Final = 10.0
"""Seconds between two lines about the same step, if the stream is not a terminal."""
_REDRAW: Final = 0.1


class LabStep:
    """One step in progress; `report` and `tick` may be called at any rate."""

    def __init__(self, name: str, stream: TextIO, clock: Callable[[], float]) -> None:
        self.name = name
        self._stream = stream
        self._clock = clock
        self._terminal = stream.isatty()
        self._began = self._shown = clock()
        self._done = self._total = 0
        self._note = ""

    @property
    def seconds(self) -> float:
        """The seconds since its start."""
        return self._clock() - self._began

    def report(self, done: int, total: int, note: str = "") -> None:
        """Record the progress, and print it if it is time."""
        self._done, self._total, self._note = done, total, note
        self.tick()

    def tick(self) -> None:
        """Print the progress, if the last line is old enough."""
        now = self._clock()
        if now - self._shown < (_REDRAW if self._terminal else _QUIET):
            return
        self._shown = now
        line = f"  {self.name:24} {self._progress_text()}"
        self._stream.write(f"\r\033[K{line}" if self._terminal else f"{line}\n")
        self._stream.flush()

    def finish(self, outcome: str = "") -> None:
        """Print the outcome."""
        line = f"  {self.name:24} {outcome or f'{self.seconds:.1f} s'}"
        self._stream.write(f"\r\033[K{line}\n" if self._terminal else f"{line}\n")
        self._stream.flush()

    def _progress_text(self) -> str:
        parts = [f"{self.seconds:.0f} s"]
        if self._total:
            if self._terminal:
                full = _BAR * self._done // self._total
                parts.append(f"[{'#' * full}{' ' * (_BAR - full)}]")
            parts.append(f"{self._done} of {self._total}")
        return " ".join([*parts, *([self._note] if self._note else [])])


class StepPrinter:
    """Print steps one after the other, and keep the duration of each."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.times: dict[str, float] = {}
        self._stream = stream
        self._clock = clock

    @contextmanager
    def step(self, name: str) -> Iterator[LabStep]:
        """Print one step; if the block raises, print that the step failed."""
        step = LabStep(name, self._stream, self._clock)
        try:
            yield step
        except BaseException:
            step.finish(f"failed after {step.seconds:.1f} s")
            raise
        self.times[name] = round(step.seconds, 2)
        step.finish()

    def print_line(self, line: str) -> None:
        """Print another line."""
        self._stream.write(f"{line}\n")
        self._stream.flush()
