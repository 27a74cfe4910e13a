"""`fairlead top` on a real terminal: it draws, obeys, and gives the terminal back however it ends."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.ledger import process_ref
from tests.cli.examples import Run
from tests.cli.foreground import CONTROLLED, LIMIT, Foreground
from tests.cli.local.records import ledger_at, queued, running

SHELL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
modes = termios.tcgetattr(0)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    from fairlead.cli.main import run
    run()
_, status = os.waitpid(child, os.WUNTRACED)
os.tcsetpgrp(0, os.getpid())
print("stopped" if os.WIFSTOPPED(status) and termios.tcgetattr(0) == modes else status, flush=True)
os.tcsetpgrp(0, child)
os.kill(child, signal.SIGCONT)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""A shell that runs the program in the foreground, and continues it after it was stopped."""


class Top(Foreground):
    """`fairlead top` as the foreground job of a terminal."""

    def __init__(
        self,
        state: Path,
        *words: str,
        program: str = CONTROLLED,
        rows: int = 24,
        columns: int = 80,
        **environ: str,
    ) -> None:
        places = {"FAIRLEAD_STATE": str(state), "HOME": str(state)}
        super().__init__(["top", *words], {**places, **environ}, program=program, rows=rows, columns=columns)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a state directory in which one job is queued that no process starts."""
    ledger = ledger_at(tmp_path / "state")
    queued(ledger, name="first")
    return tmp_path / "state"


@pytest.fixture
def start(state: Path) -> Iterator[Callable[..., Top]]:
    """Start `top`, and end it after the test."""
    started: list[Top] = []

    def begin(*words: str, **options: object) -> Top:
        started.append(Top(state, *words, **options))  # type: ignore[arg-type]  # rows, columns, variables
        return started[-1]

    yield begin
    for each in started:
        each.close()


def test_keys_and_sizes_on_a_terminal(start: Callable[..., Top]) -> None:
    top = start("--delay", "1s")
    top.shows("q quit  s sort")
    assert top.screen().text()[0].startswith("fairlead top  0 running, 1 queued")
    assert any(" first " in row for row in top.screen().text())
    top.press(b"h")
    top.shows("fairlead top: keys")
    top.press(b"x/zzz\r")
    top.shows("no job matches zzz")
    for rows, columns in ((10, 40), (1, 1), (3, 5), (40, 130)):
        top.resized(rows, columns)
    top.shows("no job matches zzz")
    top.press(b"q")
    assert top.end() == 0
    assert top.is_restored()


def test_it_ends_with_the_last_job_if_asked(start: Callable[..., Top], state: Path) -> None:
    top = start("--until-idle", "--delay", "500ms")
    top.shows("first")
    ledger = ledger_at(state)
    for job in ledger.own_jobs():
        ledger.remove(job.id)
    assert top.end() == 0
    assert top.is_restored()


def test_c_cancels_after_yes_alone(start: Callable[..., Top], state: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as command:
        victim = running(ledger_at(state), name="victim", command=process_ref(command.pid), runner=None)
        top = start("--delay", "500ms")
        top.shows("victim")
        top.press(b"c")
        top.shows(f"cancel job {victim.id}? y/n")
        top.press(b"n")
        top.shows("not cancelled")
        assert command.poll() is None
        top.press(b"cy")
        assert command.wait(LIMIT) == -signal.SIGTERM
        top.shows(f"job {victim.id} is cancelled")
        top.press(b"q")
        assert top.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_the_terminal_is_restored(start: Callable[..., Top], number: int) -> None:
    top = start(TERM="vt100", LANG="C", NO_COLOR="1")
    top.shows("first")
    assert top.written.isascii()
    assert not re.search(r"\x1b\[3\dm", top.written)
    top.press(b"\x13")  # Ctrl-S: the terminal takes nothing more
    os.kill(top.process.pid, number)
    assert top.end() == 128 + number
    assert top.is_restored()


def test_ctrl_z_gives_the_terminal_to_the_shell(start: Callable[..., Top]) -> None:
    top = start(program=SHELL)
    top.shows("first")
    top.press(b"\x1a")
    top.read_until(lambda: "\x1b[?1049lstopped\r\n" in top.written)
    top.read_until(lambda: "\x1b[?1049h" in top.written.partition("stopped")[2])
    top.shows("first")
    top.press(b"q")
    assert top.end() == 0
    assert top.is_restored()


def test_a_terminal_that_goes_away_ends_it(start: Callable[..., Top]) -> None:
    top = start()
    top.shows("first")
    os.close(top.ours)
    os.close(top.theirs)
    top.ours, top.theirs = os.pipe()
    assert top.process.wait(LIMIT) == 128 + signal.SIGHUP


def test_a_dumb_terminal_and_a_pipe_get_one_frame(
    start: Callable[..., Top], run: Run, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = start(TERM="dumb")
    assert top.end() == 0
    assert "first" in top.written
    assert "\x1b" not in top.written
    monkeypatch.setenv("FAIRLEAD_STATE", str(state))
    code, out, err = run("top")
    assert (code, err) == (0, "")
    assert re.search(r"^1 +first .* queued ", out, re.MULTILINE)


@pytest.mark.parametrize("text", ["0.1s", "soon"])
def test_a_delay_must_be_a_time(run: Run, text: str) -> None:
    code, out, err = run("top", "--once", "--delay", text)
    assert (code, out) == (2, "")
    assert f"--delay {text}: " in err
