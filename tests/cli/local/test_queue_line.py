"""The line about the queue: updated on a terminal, rare and whole elsewhere, absent if quiet."""

import io
import os
import pty
from contextlib import suppress
from dataclasses import replace

import pytest

from fairlead.cli.local.queue_line import QueueLine, fitted, short_wait_text, wait_text
from fairlead.cli.local.run import start_lines
from fairlead.job import Assumed, LocalJob, LocalState
from fairlead.local.view import WaitDecision
from fairlead.need import Need
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Seconds
from tests.local.runner.jobs import GIB, queued


def test_a_wait_says_position_reason_and_expected_start() -> None:
    assert wait_text(queued(7), WaitDecision(3, "needs 2 cores", Seconds(260.0))) == (
        "fairlead: job 7 is number 3 in the queue: needs 2 cores; expected to start in 4m20s"
    )
    assert wait_text(queued(7), WaitDecision(1, "no GPU")).endswith("in the queue: no GPU")


def test_a_narrow_terminal_shows_the_expected_start_and_what_fits_of_the_reason() -> None:
    decision = WaitDecision(2, "needs 6.0 GiB; pci-0000-3b-00-0 has 2.1 GiB of 24 GiB free", Seconds(5.89))
    texts = wait_text(queued(12), decision), short_wait_text(queued(12), decision)
    assert fitted(*texts, 200).endswith("free; expected to start in 5s")
    assert fitted(*texts, 80) == (
        "fairlead: job 12: #2, starts in about 5s: needs 6.0 GiB; pci-0000-3b-00-0 ha..."
    )
    assert [len(fitted(*texts, width)) for width in (80, 40, 4, 1)] == [79, 39, 3, 3]
    assert short_wait_text(queued(7), WaitDecision(1, "no GPU")) == "fairlead: job 7: #1: no GPU"


def test_a_repeated_reason_is_a_line_every_thirty_seconds() -> None:
    now, stream = [0.0], io.StringIO()
    line = QueueLine(stream, clock=lambda: now[0])
    for at, reason in (
        (0, "1 GiB free"),
        (1, "2 GiB free"),
        (2, "cores"),
        (29.9, "3 GiB free"),
        (30, "4 GiB free"),
    ):
        now[0] = at
        line.waits(queued(), WaitDecision(1, reason))
    assert [text.rpartition(": ")[2] for text in stream.getvalue().splitlines()] == [
        "1 GiB free",
        "cores",
        "4 GiB free",
    ]


def on_terminal(*decisions: WaitDecision) -> str:
    """Return what a terminal of 80 columns receives of a job that waits."""
    pid, screen = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        with open(2, "w", encoding="utf-8", closefd=False) as stream:
            line = QueueLine(stream)
            for decision in decisions:
                line.waits(queued(7), decision)
        os._exit(0)
    received = b""
    with suppress(OSError):  # the terminal ends with the process
        while data := os.read(screen, 4096):
            received += data
    os.waitpid(pid, 0)
    os.close(screen)
    return received.decode()


def test_a_terminal_shows_a_fault_whole_and_updates_other_reasons() -> None:
    long = "needs 6.0 GiB; pci-0000-3b-00-0 has 2.1 GiB of 24 GiB free beside what its jobs may still take"
    fault = "no healthy accelerator is left for it (pci-0000-3b-00-0: driver mismatch: reload the driver)"
    shown = on_terminal(WaitDecision(1, long), *[WaitDecision(n, fault, faulty=True) for n in (1, 2)])
    drawn, erased, rest = shown.removeprefix("\r\033[K").partition("\r\033[K")
    assert (drawn[-3:], len(drawn), bool(erased)) == ("...", 79, True)
    assert rest == f"fairlead: job 7 is number 1 in the queue: {fault}\r\n"


class Broken(io.StringIO):
    """A terminal that is gone."""

    def write(self, text: str) -> int:
        """Fail."""
        raise OSError(5, "Input/output error")


def test_quiet_or_broken_streams_show_nothing() -> None:
    stream = io.StringIO()
    for line in (QueueLine(stream, quiet=True), QueueLine(Broken()), QueueLine(None)):
        line.waits(queued(), WaitDecision(1, "cores"))
        line.line("something")
        line.clear()
    assert stream.getvalue() == ""
    QueueLine(stream, quiet=True).error("an error")
    assert stream.getvalue() == "fairlead: run: an error\n"


GPU = (DeviceShare("gpu-0", Bytes(2 * GIB)),)
WHOLE = (DeviceShare("gpu-0", whole=True),)
LEARNED = Assumed(gpus=1, need=Need.fixed(Bytes(2 * GIB)), source="learned from 3 runs of train.py")


@pytest.mark.parametrize(
    ("job", "waited", "lines"),
    [
        (queued(assumed=Assumed(source="stated"), shares=GPU, started=1.0), False, []),
        (queued(assumed=Assumed(source="nothing is known of a: ...")), False, []),
        (
            queued(assumed=LEARNED, shares=GPU, state=LocalState.RUNNING),
            False,
            ["assumes 2.0 GiB of GPU memory on gpu-0, learned from 3 runs of train.py"],
        ),
        (
            queued(assumed=replace(LEARNED, need=Need.fixed(Bytes(3 * GIB))), shares=(*GPU, *GPU)),
            False,
            ["assumes 2.0 GiB of each of 2 GPUs on gpu-0,gpu-0, learned from 3 runs of train.py"],
        ),
        (
            queued(
                assumed=Assumed(whole=True, gpus=1, source="learned from 1 run of a: it fills"), shares=WHOLE
            ),
            False,
            ["assumes 1 whole accelerator on gpu-0, learned from 1 run of a: it fills"],
        ),
        (
            queued(
                assumed=Assumed(source="nothing is known of a: it gets a whole GPU; next time"), shares=WHOLE
            ),
            False,
            ["nothing is known of a: it gets a whole GPU, gpu-0; next time"],
        ),
        (
            queued(assumed=Assumed(cpu=2000, memory=Bytes(GIB), firm_cpu=True, source="learned from 1 run")),
            False,
            ["assumes 1.0 GiB of RAM, learned from 1 run"],
        ),
        (
            queued(assumed=Assumed(source="stated"), shares=GPU, state=LocalState.RUNNING),
            True,
            ["starts on gpu-0"],
        ),
    ],
)
def test_a_start_is_announced_if_something_was_assumed(job: LocalJob, waited: bool, lines: list[str]) -> None:
    job = replace(job, state=LocalState.RUNNING)
    assert list(start_lines(job, waited=waited)) == lines
