"""Say on a terminal, or in a log, what is being done and how long it took."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

_BAR: Final = 24
_QUIET: Final = 10.0
"""Seconds between two lines about the same step, where there is no terminal to draw on."""
_REDRAW: Final = 0.1


class LabStep:
    """One thing that is being done; `at` and `tick` may be called as often as one likes."""

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
        """How long it has taken so far."""
        return self._clock() - self._began

    def report(self, done: int, total: int, note: str = "") -> None:
        """Say how far it is."""
        self._done, self._total, self._note = done, total, note
        self.tick()

    def tick(self) -> None:
        """Say that it goes on."""
        now = self._clock()
        if now - self._shown < (_REDRAW if self._terminal else _QUIET):
            return
        self._shown = now
        line = f"  {self.name:24} {self._how_far()}"
        self._stream.write(f"\r\033[K{line}" if self._terminal else f"{line}\n")
        self._stream.flush()

    def finish(self, outcome: str = "") -> None:
        """Say that it is over."""
        line = f"  {self.name:24} {outcome or f'{self.seconds:.1f} s'}"
        self._stream.write(f"\r\033[K{line}\n" if self._terminal else f"{line}\n")
        self._stream.flush()

    def _how_far(self) -> str:
        parts = [f"{self.seconds:.0f} s"]
        if self._total:
            if self._terminal:
                full = _BAR * self._done // self._total
                parts.append(f"[{'#' * full}{' ' * (_BAR - full)}]")
            parts.append(f"{self._done} of {self._total}")
        return " ".join([*parts, *([self._note] if self._note else [])])


class StepPrinter:
    """Tell of steps, one after the other, and remember what each took."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.times: dict[str, float] = {}
        self._stream = stream
        self._clock = clock

    @contextmanager
    def step(self, name: str) -> Iterator[LabStep]:
        """Tell of one step; what ends in an error is said to have failed."""
        step = LabStep(name, self._stream, self._clock)
        try:
            yield step
        except BaseException:
            step.finish(f"failed after {step.seconds:.1f} s")
            raise
        self.times[name] = round(step.seconds, 2)
        step.finish()

    def print_line(self, line: str) -> None:
        """Say something else."""
        self._stream.write(f"{line}\n")
        self._stream.flush()
