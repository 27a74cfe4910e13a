"""What runs the inputs of a job on this machine: a command, one that saves itself, a function or a model."""

import os
import shutil
import time
from collections.abc import Callable
from typing import Final

from fairlead.errors import FairleadError, JobError
from fairlead.executors.checkpoint import CheckpointedCommand, CheckpointShelf, Moved, SavedInput
from fairlead.executors.warm import WarmProcess, WarmSpec
from fairlead.splitwork.command import CommandExecutor
from fairlead.splitwork.task import GivenUp, InputExecutor, InputFailure, Made, WorkTask
from fairlead.submission.request import JobRequest

Log = Callable[[str], None]
_LONG: Final = 5.0
"""Seconds after which an input that has a result from elsewhere is not run to its end."""


class WarmExecutor:
    """A function or a model in a process that is warm before the first input comes."""

    def __init__(self, process: WarmProcess, long: float = _LONG) -> None:
        self._process = process
        self._long = long
        self._began = 0.0
        self._is_interrupted = False
        self._is_dropped = False

    def run(self, task: WorkTask, target: str) -> Made:
        """Make the result of an input in the target file."""
        self._is_dropped, self._began = False, time.monotonic()
        try:
            failure = self._process.run(task.source, target)
            made = None if failure is None else InputFailure(failure.exit, failure.error)
        except FairleadError as error:  # it had crashed, and does not start any more
            made = InputFailure(None, str(error))
        if self._is_interrupted or (self._is_dropped and made is not None):
            return GivenUp()
        return made

    def interrupt(self) -> None:
        """Give up the input that is run; called from another thread."""
        self._is_interrupted = True
        self._process.interrupt()

    def drop(self, task: WorkTask) -> None:
        """End the process if it has run for long: to start it again may take as long as a short input."""
        del task
        if time.monotonic() - self._began > self._long:
            self._is_dropped = True
            self._process.interrupt()

    def close(self) -> None:
        """End the process."""
        self._process.close()


class SavedExecutor:
    """A command that saves itself: an input that is given up goes on elsewhere."""

    def __init__(self, command: CheckpointedCommand, folder: str, number: int) -> None:
        self._command = command
        self._checkpoint = os.path.join(folder, f"checkpoint-{number}")

    def run(self, task: WorkTask, target: str) -> Made:
        """Make the result of an input in the target file."""
        item = SavedInput(task.lease.digest, task.source, target, self._checkpoint)
        made = self._command.run(item)
        if isinstance(made, Moved):
            return GivenUp()
        if made is not None:
            return InputFailure(made.exit, made.error)
        return None if os.path.isfile(target) else InputFailure(0, "it wrote no result: no file at {output}")

    def interrupt(self) -> None:
        """Save the input that is run, and give it up; called from another thread."""
        self._command.interrupt()

    def drop(self, task: WorkTask) -> None:
        """End the program of an input that has a result from elsewhere."""
        self._command.drop(task.lease.digest)

    def close(self) -> None:
        """Give back what it holds."""
        self._command.close()


def executors_of(
    request: JobRequest, slots: int, folder: str, files: str, shelf: CheckpointShelf, log: Log
) -> list[InputExecutor]:
    """Return what runs inputs, one for each slot, ready to run; JobError where this machine cannot."""
    if request.kind == "command":
        return _commands(request, slots, folder, files, shelf, log)
    target = request.command[0]
    if request.kind == "model":
        spec = WarmSpec("model", os.path.join(files, target), options=request.options)
    elif request.kind == "function":
        spec = WarmSpec("function", target, files)
    else:
        raise JobError(f"a job of the kind {request.kind!r} is not known here", "install a newer fairlead")
    processes = [WarmProcess(spec, log) for _ in range(slots)]
    try:
        for process in processes:
            process.start()
    except BaseException:
        for process in processes:
            process.close()
        raise
    return [WarmExecutor(each) for each in processes]


def _commands(
    request: JobRequest, slots: int, folder: str, files: str, shelf: CheckpointShelf, log: Log
) -> list[InputExecutor]:
    words = [word.replace("{with}", files) for word in request.command]
    if shutil.which(words[0]) is None:
        # It would fail on every input at once, also on those that others can do.
        raise JobError(
            f"{words[0]}: there is no such program here", "install it, or take it along with --with"
        )
    if request.checkpoint is None:
        return [CommandExecutor(words) for _ in range(slots)]
    hook = request.checkpoint.placed(files)
    return [
        SavedExecutor(CheckpointedCommand(words, hook, shelf, log), folder, number) for number in range(slots)
    ]
