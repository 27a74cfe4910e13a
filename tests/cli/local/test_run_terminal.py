"""`fairlead run` on a terminal: what the terminal sends to the process group reaches the command once."""

import os
import pty
import re
import signal
import sys
from pathlib import Path

from tests.local.runner.programs import ALL_CORES, COUNTING, World, counts

SHELL = """
import os, signal, sys
# A shell in a few lines: the job gets a process group of its own and the terminal.
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
print("job", job, flush=True)
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        print("code", os.waitstatus_to_exitcode(status), flush=True)
        break
    print("stopped", flush=True)
    input()
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
"""


class Terminal:
    """A terminal with a small shell that runs one job in its foreground."""

    def __init__(self, world: World, *words: str) -> None:
        self.pid, self._screen = pty.fork()
        if self.pid == 0:
            try:
                os.execve(sys.executable, [sys.executable, "-c", SHELL, *world.words(*words)], world.environ)
            finally:
                os._exit(99)
        self.shown = ""

    def type(self, keys: str) -> None:
        """Type keys."""
        os.write(self._screen, keys.encode())

    def read_until(self, pattern: str) -> "re.Match[str]":
        """Read the screen until it shows a pattern."""
        while not (match := re.search(pattern, self.shown)):
            self.shown += os.read(self._screen, 65536).decode()
        return match

    def end(self) -> int:
        """Wait for the end of the job and of the shell; return the exit code of the job."""
        code = int(self.read_until(r"code (-?\d+)\r?\n")[1])
        os.waitpid(self.pid, 0)
        os.close(self._screen)
        return code


def test_control_c_reaches_the_command_once(world: World) -> None:
    terminal = Terminal(world, sys.executable, "-c", COUNTING)
    job = int(terminal.read_until(r"job (\d+)")[1])
    terminal.read_until("ready")
    terminal.type("\x03")
    terminal.read_until("SIGINT 1")
    os.kill(job, signal.SIGTERM)  # comes after a second SIGINT, if there is one
    terminal.read_until("SIGTERM 1")
    os.kill(job, signal.SIGUSR1)
    assert terminal.end() == 9
    assert counts(terminal.shown) == {"SIGINT": 1, "SIGTERM": 1, "SIGUSR1": 1}


def test_control_c_ends_a_plain_command_with_130(world: World) -> None:
    terminal = Terminal(world, "sh", "-c", "echo ready; exec sleep 600")
    terminal.read_until("ready")
    terminal.type("\x03")
    assert terminal.end() == 130


def test_control_z_stops_the_job_and_fg_continues_it(world: World) -> None:
    terminal = Terminal(world, "sh", "-c", "echo ready; read line; echo got $line; exit 4")
    job = int(terminal.read_until(r"job (\d+)")[1])
    terminal.read_until("ready")
    terminal.type("\x1a")
    terminal.read_until("stopped")
    (record,) = world.ledger.jobs()
    assert record.command is not None
    assert [_state(pid) for pid in (job, record.command.pid)] == ["T", "T"]
    terminal.type("\n")  # the shell's `fg`
    terminal.type("input\n")
    terminal.read_until("got input")
    assert terminal.end() == 4, terminal.shown


def test_the_wait_is_one_line_that_is_erased(world: World) -> None:
    first = world.start("--cpus", ALL_CORES, "cat")
    while not world.ledger.jobs():
        os.sched_yield()
    terminal = Terminal(world, "--cpus", ALL_CORES, "echo", "second")
    terminal.read_until(r"\r\x1b\[Kfairlead: job 2 is number 1 in the queue: [^\r\n]*")
    first.communicate(timeout=60)
    assert terminal.end() == 0
    assert re.search(r"\r\x1b\[Kfairlead: run: starts[^\n]*\n(.*\n)*second\r\n", terminal.shown)


def test_a_terminal_that_goes_away_ends_the_wait(world: World) -> None:
    first = world.start("--cpus", ALL_CORES, "cat")
    while not world.ledger.jobs():
        os.sched_yield()
    pid, screen = pty.fork()  # the session's leader is the waiting process itself
    if pid == 0:
        try:
            words = world.words("--cpus", ALL_CORES, "true")
            os.execve(words[0], words, world.environ)
        finally:
            os._exit(99)
    shown = b""
    while b"queue" not in shown:
        shown += os.read(screen, 65536)
    os.close(screen)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGHUP
    first.communicate(timeout=60)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
