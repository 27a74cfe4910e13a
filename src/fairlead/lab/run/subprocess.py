"""Run another program to its end, with its output in a log."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

TICK: Final = 0.25
"""Seconds between two looks at a running program."""


def run(
    argv: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str],
    cwd: Path,
    watch: Callable[[], None] = lambda: None,
    answer: Path | None = None,
) -> int:
    """Run a program, append what it prints to a log, call `watch` meanwhile; return its exit code.

    Where an `answer` is named, the standard output goes there instead of into the log.
    Whatever ends the wait (an error in `watch`, Ctrl-C) also ends the program.
    """
    with log.open("ab") as errors, (answer or log).open("ab") as output:
        program = subprocess.Popen(  # noqa: S603  # no shell; every argument is ours or a path
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=env,
            cwd=cwd,
        )
    try:
        while True:
            watch()
            with suppress(subprocess.TimeoutExpired):
                return program.wait(TICK)
    except BaseException:
        program.kill()
        program.wait()
        raise


def read_output(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None) -> str | None:
    """Return what a program prints, or None when it cannot be run or fails."""
    try:
        answer = subprocess.run(  # noqa: S603  # no shell; every argument is ours or a path
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=env,
            cwd=cwd,
            check=False,
            text=True,
            errors="replace",
        )
    except OSError:
        return None
    return answer.stdout if answer.returncode == 0 else None
