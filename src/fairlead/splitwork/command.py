"""CommandExecutor: a program for each input; its file, or its standard output, is the result."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO, Final

from fairlead.splitwork.task import GivenUp, InputFailure, Made, WorkTask

_TAIL: Final = 4096
"""Bytes of the standard error of which the last line says why a program failed."""
_END: Final = 3.0
_PLACE: Final = re.compile(r"\{(input|output)\}")


class CommandExecutor:
    """Runs a command with `{input}` and `{output}` in it; without the latter its output is the result."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._writes_itself = any("{output}" in word for word in command)
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._interrupted = False
        self._task: WorkTask | None = None
        self._dropped: WorkTask | None = None

    def run(self, task: WorkTask, target: str) -> Made:
        """Run the command on one input."""
        self._task = task
        with TemporaryFile() as errors, open(os.devnull if self._writes_itself else target, "wb") as out:
            try:
                code = self._run(self._words(task.source, target), out, errors)
            except OSError as error:
                return InputFailure(127, f"{self._command[0]}: {error.strerror}")
            if self._interrupted or self._dropped is task:
                return GivenUp()
            if code:
                return InputFailure(code, _last_line(errors) or f"it ended with {code} and said nothing")
        if not os.path.isfile(target):
            return InputFailure(0, "it wrote no result: there is no file at {output}")
        return None

    def interrupt(self) -> None:
        """End the program that runs, and all that it started."""
        with self._lock:
            self._interrupted = True
            child = self._child
        if child is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_END)
                return

    def drop(self, task: WorkTask) -> None:
        """End the program of an input that has a result from elsewhere."""
        with self._lock:
            child = self._child if self._task is task else None
            self._dropped = task if child is not None else None
        if child is not None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    def close(self) -> None:
        """Do nothing: a program ends with its input."""

    def _run(self, words: Sequence[str], out: IO[bytes], errors: IO[bytes]) -> int:
        with self._lock:
            if self._interrupted:
                return 0
            self._child = subprocess.Popen(  # noqa: S603  # the program that the user names
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True
            )
        code = self._child.wait()
        with self._lock:
            self._child = None
        return code

    def _words(self, source: str, target: str) -> list[str]:
        values = {"input": source, "output": target}
        # In one pass: the name of a file may have braces of its own.
        return [_PLACE.sub(lambda found: values[found[1]], word) for word in self._command]


def _last_line(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _TAIL))
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return "".join(char if char.isprintable() else " " for char in lines[-1]) if lines else ""
