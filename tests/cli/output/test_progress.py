"""Progress of work over a second is shown on a terminal only; the test controls the clock."""

import io
import sys
import threading

import pytest

from fairlead.cli.output.progress import Progress, progress
from tests.cli.examples import CLUSTER, WORKLOADS, Run


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that reports that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_nothing_is_shown_in_the_first_second() -> None:
    clock, stream = Clock(), Terminal()
    bar = Progress("placing 3 pods", stream, clock)
    clock.now += 0.99
    bar.draw()
    bar.clear()
    assert stream.getvalue() == ""


def test_progress_is_drawn_over_the_last_line_and_erased() -> None:
    clock, stream = Clock(), Terminal()
    bar = Progress("fairlead", stream, clock)
    clock.now += 1
    bar.draw()
    bar.update(5, 10, "jobs")
    clock.now += 2.4
    bar.draw()
    bar.clear()
    bar.clear()
    first, second, last = stream.getvalue().split("\r\033[K")[1:]
    assert first == "fairlead: 1 s"
    assert second == f"fairlead: 3 s [{'#' * 12}{' ' * 12}] 5 of 10 jobs"
    assert last == ""


def test_a_line_is_never_wider_than_the_terminal() -> None:
    clock, stream = Clock(), Terminal()
    bar = Progress("reading " + "x" * 200, stream, clock, width=40)
    clock.now += 5
    bar.draw()
    assert len(stream.getvalue().removeprefix("\r\033[K")) == 39


def test_the_drawing_thread_ends_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    before = threading.active_count()
    with progress("work"):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_a_pipe_gets_no_progress_line(run: Run) -> None:
    before = threading.active_count()
    with progress("work") as bar:
        bar.update(1, 2)
        assert threading.active_count() == before
    assert run("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS)[2] == ""
