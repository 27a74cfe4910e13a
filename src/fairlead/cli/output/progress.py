"""A progress line on the standard error, on a terminal, for work that takes longer than a second."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from fairlead.cli.output.table import shorten_middle
from fairlead.cli.output.terminal import Screen

_PATIENCE: Final = 1.0
"""Seconds before the line is shown: most commands end earlier."""
_PAUSE: Final = 0.2
_BAR: Final = 24
_CLEAR: Final = "\r\033[K"


class Progress:
    """The progress of a task; `update` is cheap and may be called often, a timer calls `draw`."""

    def __init__(
        self, task: str, stream: TextIO, clock: Callable[[], float] = time.monotonic, width: int = 80
    ) -> None:
        self._task = task
        self._stream = stream
        self._clock = clock
        self._width = width
        self._began = clock()
        self._done = self._total = 0
        self._status = ""
        self._shown = False

    def update(self, done: int, total: int, status: str = "") -> None:
        """Record how many steps are done, without drawing."""
        self._done, self._total, self._status = done, total, status

    def set_status(self, text: str) -> None:
        """Record the current step."""
        self._status = text

    def draw(self) -> None:
        """Draw the line over the last one, once the task has taken a second."""
        seconds = self._clock() - self._began
        if seconds < _PATIENCE:
            return
        self._shown = True
        self._stream.write(f"{_CLEAR}{shorten_middle(self._line(seconds), self._width - 1)}")
        self._stream.flush()

    def clear(self) -> None:
        """Erase the line, if one was drawn."""
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
        self._shown = False

    def _line(self, seconds: float) -> str:
        parts = [f"{self._task}: {seconds:.0f} s"]
        if self._total:
            full = min(_BAR, _BAR * self._done // self._total)
            parts.append(f"[{'#' * full:{_BAR}}] {self._done} of {self._total}")
        return " ".join([*parts, *([self._status] if self._status else [])])


@contextmanager
def progress(task: str) -> Iterator[Progress]:
    """Show the progress of the block while it runs; show nothing if the standard error is no terminal."""
    screen = Screen.of(sys.stderr, os.environ)
    bar = Progress(task, sys.stderr, width=screen.width or 80)
    if screen.width is None or os.environ.get("TERM") == "dumb":
        yield bar
        return
    ended = threading.Event()
    painter = threading.Thread(target=_draw_until, args=(bar, ended), daemon=True)
    painter.start()
    try:
        yield bar
    finally:
        ended.set()
        painter.join()
        bar.clear()


def _draw_until(bar: Progress, ended: threading.Event) -> None:
    while not ended.wait(_PAUSE):
        bar.draw()
