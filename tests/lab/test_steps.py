"""The steps of a lab's start: one line per step in a log, a bar on a terminal."""

import io

import pytest

from fairlead.lab.run.steps import StepPrinter


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_one_line_per_step() -> None:
    clock, stream = Clock(), io.StringIO()
    printer = StepPrinter(stream, clock)
    with printer.step("keys") as step:
        for _ in range(20):
            clock.now += 0.1
            step.tick()
    printer.print_line("done")
    assert stream.getvalue() == f"  {'keys':24} 2.0 s\ndone\n"
    assert printer.times == {"keys": 2.0}


def test_a_long_step_is_reported_every_ten_seconds() -> None:
    clock, stream = Clock(), io.StringIO()
    with StepPrinter(stream, clock).step("nodes") as step:
        for done in range(25):
            clock.now += 1
            step.report(done, 25, "so far")
    assert stream.getvalue().splitlines() == [
        f"  {'nodes':24} 10 s 9 of 25 so far",
        f"  {'nodes':24} 20 s 19 of 25 so far",
        f"  {'nodes':24} 25.0 s",
    ]


def test_a_terminal_gets_a_bar() -> None:
    clock, stream = Clock(), Terminal()
    with StepPrinter(stream, clock).step("nodes") as step:
        clock.now = 3
        step.report(12, 24)
    assert "[############            ] 12 of 24" in stream.getvalue()
    assert stream.getvalue().endswith("3.0 s\n")


def test_a_failed_step_is_reported() -> None:
    stream = io.StringIO()
    printer = StepPrinter(stream, Clock())
    with pytest.raises(OSError, match="no"), printer.step("etcd"):
        raise OSError("no")
    assert "failed after" in stream.getvalue()
    assert printer.times == {}
