"""A program that saves what it has done of an input, so that another machine goes on from there.

The hook is two commands: one makes a running program save itself into a file, the other is run instead of the
job's command and goes on from such a file. What was saved is kept where every worker reaches it.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import Any, Final, Protocol

from fairlead.errors import FairleadError, JobError
from fairlead.executors.warm import ExecutionFailure

EVERY: Final = 30.0
"""Seconds between two saves."""
_SAVE_SECONDS: Final = 120.0
_TAIL: Final = 4096
"""Bytes of the standard error of which the last line is the message of a failure."""
_END: Final = 5.0


class CheckpointShelf(Protocol):
    """Keeps one file for each unfinished input, where every worker of the job reaches it."""

    def fetch(self, digest: str, target: str) -> bool:
        """Write what was saved of an input into a file; False: nothing was."""

    def publish(self, digest: str, file: str) -> None:
        """Keep what was saved of an input, as a whole."""

    def forget(self, digest: str) -> None:
        """Remove what was saved of an input that has a result now."""


@dataclass(frozen=True, slots=True)
class CheckpointHook:
    """How a program saves itself, and how it goes on."""

    save: tuple[str, ...]
    """A command: `{pid}` is the running program, `{checkpoint}` the file to write."""
    resume: tuple[str, ...]
    """The command that goes on: `{checkpoint}` is the file that was written; `{input}` and `{output}` too."""
    every: float = EVERY

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "CheckpointHook":
        """Return the hook that a job states; JobError where it is none."""
        try:
            save, resume = (tuple(map(str, document[name])) for name in ("save", "resume"))
            every = float(document.get("every", EVERY))
        except (KeyError, TypeError, ValueError):
            raise JobError("the checkpoint of the job is none: it needs save and resume") from None
        if not any("{checkpoint}" in word for word in resume):
            raise JobError("the command that resumes has no {checkpoint}", "write it where the file goes")
        if not any("{pid}" in word or "{checkpoint}" in word for word in save):
            raise JobError("the command that saves has neither {pid} nor {checkpoint}")
        return cls(save, resume, max(0.1, every))

    def placed(self, files: str) -> "CheckpointHook":
        """Return the hook with the folder of the files taken along in it."""
        save, resume = (
            tuple(word.replace("{with}", files) for word in each) for each in (self.save, self.resume)
        )
        return replace(self, save=save, resume=resume)

    def to_json(self) -> dict[str, Any]:
        """Return it for the document of a job."""
        return {"save": list(self.save), "resume": list(self.resume), "every": self.every}


@dataclass(frozen=True, slots=True)
class Moved:
    """The input was saved and given up: another worker goes on with it."""

    saved: bool
    """False: nothing was saved, it begins again elsewhere."""


@dataclass(frozen=True, slots=True)
class SavedInput:
    """An input that can be saved, and the files of this machine for it."""

    digest: str
    source: str
    target: str
    checkpoint: str


class CheckpointedCommand:
    """Runs a command for one input after the other, from where it was saved if it was."""

    def __init__(
        self, command: Sequence[str], hook: CheckpointHook, shelf: CheckpointShelf, log: Callable[[str], None]
    ) -> None:
        self._command = tuple(command)
        self._hook = hook
        self._shelf = shelf
        self._log = log
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._digest = self._dropped = ""
        self._is_interrupted = False

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._wake)

    def interrupt(self) -> None:
        """Save the input that is worked on, and give it up; called from another thread."""
        self._is_interrupted = True
        os.eventfd_write(self._wake, 1)

    def drop(self, digest: str) -> None:
        """Give up an input that has a result from elsewhere, if it is the one that is worked on."""
        if self._digest == digest:
            self._dropped = digest
            os.eventfd_write(self._wake, 1)

    def run(self, item: SavedInput) -> "ExecutionFailure | Moved | None":
        """Make the result of one input; None: it is made."""
        self._digest = item.digest
        words = self._hook.resume if self._fetch(item) else self._command
        writes_itself = any("{output}" in word for word in words)
        with open(os.devnull if writes_itself else item.target, "wb") as out, TemporaryFile() as errors:
            try:
                child = subprocess.Popen(  # noqa: S603 - the program that the user names
                    filled(words, item),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                return ExecutionFailure(127, f"{words[0]}: {error.strerror}")
            moved = self._watch(child, item)
            if moved is not None:
                return moved
            if child.returncode:
                return ExecutionFailure(child.returncode, _last_line(errors.fileno()) or "it said nothing")
        with suppress(FairleadError, OSError):
            self._shelf.forget(item.digest)
        return None

    def _fetch(self, item: SavedInput) -> bool:
        try:
            resumed = self._shelf.fetch(item.digest, item.checkpoint)
        except FairleadError as error:
            self._log(f"{item.source}: what was saved of it is not reached, it begins again: {error}")
            return False
        if resumed:
            self._log(f"{item.source}: goes on from what was saved")
        return resumed

    def _watch(self, child: "subprocess.Popen[bytes]", item: SavedInput) -> Moved | None:
        """Wait for the end of a program, and let it save itself from time to time."""
        ended = os.pidfd_open(child.pid)
        try:
            poll = select.poll()
            for handle in (ended, self._wake):
                poll.register(handle, select.POLLIN)
            due = time.monotonic() + self._hook.every
            while True:
                ready = {handle for handle, _ in poll.poll(max(0.0, due - time.monotonic()) * 1000)}
                if ended in ready:
                    child.wait()
                    return None
                if self._wake in ready:
                    os.eventfd_read(self._wake)
                    if self._is_interrupted or self._dropped == item.digest:
                        return Moved(self._give_up(child, item))
                    continue  # it was about the input before
                self._save(child, item)
                due = time.monotonic() + self._hook.every
        finally:
            os.close(ended)

    def _give_up(self, child: "subprocess.Popen[bytes]", item: SavedInput) -> bool:
        saved = self._dropped != item.digest and self._save(child, item)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_END)
                break
        return saved

    def _save(self, child: "subprocess.Popen[bytes]", item: SavedInput) -> bool:
        """Let a program save itself, and keep that; False: there is no newer state than before."""
        with suppress(FileNotFoundError):
            os.unlink(item.checkpoint)
        words = filled(self._hook.save, item, child.pid)
        try:
            done = subprocess.run(  # noqa: S603 - the program that the user names
                words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_SAVE_SECONDS
            )
            if done.returncode or not os.path.isfile(item.checkpoint):
                why = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it wrote no file"]
                self._log(f"{item.source}: it was not saved: {why[0]}")
                return False
            self._shelf.publish(item.digest, item.checkpoint)
        except (OSError, subprocess.TimeoutExpired, FairleadError) as error:
            self._log(f"{item.source}: it was not saved: {error}")
            return False
        return True


def filled(words: Sequence[str], item: SavedInput, pid: int = 0) -> list[str]:
    """Return a command with the files of an input in it."""
    values = {"input": item.source, "output": item.target, "checkpoint": item.checkpoint, "pid": str(pid)}
    made = []
    for word in words:
        for name, value in values.items():
            word = word.replace(f"{{{name}}}", value)  # noqa: PLW2901
        made.append(word)
    return made


def _last_line(handle: int) -> str:
    size = os.lseek(handle, 0, os.SEEK_END)
    os.lseek(handle, max(0, size - _TAIL), os.SEEK_SET)
    lines = os.read(handle, _TAIL).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


class FolderShelf:
    """Keeps what was saved in a folder: of the volume, for a worker beside the store."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def fetch(self, digest: str, target: str) -> bool:
        """Write what was saved of an input into a file; False: nothing was."""
        try:
            with open(os.path.join(self._folder, digest), "rb") as saved, open(target, "wb") as file:
                while block := saved.read(1 << 20):
                    file.write(block)
        except FileNotFoundError:
            return False
        return True

    def publish(self, digest: str, file: str) -> None:
        """Keep what was saved of an input, as a whole."""
        os.makedirs(self._folder, exist_ok=True)
        part = os.path.join(self._folder, f".{digest}.{os.getpid()}.part")
        with open(file, "rb") as saved, open(part, "wb") as kept:
            while block := saved.read(1 << 20):
                kept.write(block)
            kept.flush()
            os.fsync(kept.fileno())
        os.replace(part, os.path.join(self._folder, digest))

    def forget(self, digest: str) -> None:
        """Remove what was saved of an input that has a result now."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, digest))
