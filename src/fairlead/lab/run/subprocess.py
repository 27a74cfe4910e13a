"""Run another program to its end, with its output in a log file."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

TICK: Final = 0.25
"""Seconds between two polls of a running program."""


def run(
    argv: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str],
    cwd: Path,
    watch: Callable[[], None] = lambda: None,
    output: Path | None = None,
) -> int:
    """Run a program, append its output to a log, call `watch` meanwhile; return its exit code.

    If `output` is set, standard output goes to that file instead of the log.
    An exception that ends the wait (an error in `watch`, Ctrl-C) also kills the program.
    """
    with log.open("ab") as errors, (output or log).open("ab") as stdout:
        program = subprocess.Popen(  # noqa: S603  # no shell; every argument is ours or a path
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
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
    """Return a program's standard output, or None if it cannot be started or fails."""
    try:
        done = subprocess.run(  # noqa: S603  # no shell; every argument is ours or a path
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
    return done.stdout if done.returncode == 0 else None
