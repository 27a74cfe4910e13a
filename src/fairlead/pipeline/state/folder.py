"""The folder that keeps the progress of a run: one run at a time, and none is overwritten by mistake."""

import fcntl
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Final
from uuid import uuid4

from fairlead.errors import NewerFormatError, OutputError, PipelineError
from fairlead.outfile import atomic_write
from fairlead.pipeline.spec import PipelineSpec
from fairlead.pipeline.state.record import RECORDS, RunPhase, RunRecord, difference, fingerprint

FILE: Final = "progress.json"
_PATIENCE: Final = 2.0
"""Seconds in which the processes of a run that was killed have ended."""
_PAUSE: Final = 0.02
_BOOT: Final = "/proc/sys/kernel/random/boot_id"
_LARGEST: Final = 1 << 31
_OTHER: Final = "or name another folder"
_WRITABLE: Final = "name a folder that can be written"
Log = Callable[[str], None]


class StateFolder:
    """An open folder; its lock ends with the last process of the run, however they end."""

    def __init__(self, path: str, record: RunRecord, before: RunRecord | None, lock: int) -> None:
        self.path = path
        self.record = record
        """What was last written."""
        self.before = before
        """What the run goes on from; None: it begins."""
        self.lock = lock
        """A descriptor; every worker gets it as well."""

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do: the run was done already."""
        return self.record.phase is RunPhase.DONE

    def write(self, record: RunRecord) -> None:
        """Replace the record, atomically and synced to the disk; OutputError where that is not possible."""
        place = os.path.join(self.path, FILE)
        try:
            with atomic_write(place, text=True) as file:
                file.write(RECORDS.encode(record))
        except OSError as error:
            raise OutputError(f"{place}: cannot be written: {error.strerror}", _WRITABLE) from None
        self.record = record

    def close(self) -> None:
        """Let the folder go, unless a worker still holds it."""
        os.close(self.lock)

    def __enter__(self) -> "StateFolder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_state(
    path: str,
    spec: PipelineSpec,
    *,
    resume: bool,
    log: Log,
    patience: float = _PATIENCE,
    free: Collection[str] = frozenset(),
) -> StateFolder:
    """Lock a folder and read it; PipelineError where a run can neither begin nor go on in it.

    `free` are stages that may have other settings, and be on other hosts, than in the run that is kept.
    """
    try:
        if not resume:
            os.makedirs(path, mode=0o700, exist_ok=True)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        hint = "leave out --resume to begin a run, or correct the path"
        raise PipelineError(f"{path} does not exist: there is no run to go on with", hint) from None
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}", _WRITABLE) from None
    try:
        _lock(lock, path, patience)
        _remove_unfinished(path)
        before = _read(path)
        if before is not None and resume:
            _require_same(path, before, spec, free)
        folder = _choose(path, before, spec, resume=resume, log=log, lock=lock)
        if not folder.is_done:
            folder.write(folder.record)
    except BaseException:
        os.close(lock)
        raise
    return folder


def _choose(
    path: str, before: RunRecord | None, spec: PipelineSpec, *, resume: bool, log: Log, lock: int
) -> StateFolder:
    """Begin or go on, as the folder and the user have it."""
    new = RunRecord(f"{spec.name}-{uuid4().hex}", 0, boot_id(), fingerprint(spec))
    if before is None or before.phase is RunPhase.OPENING:
        if resume:
            log(f"{path} holds no progress yet: the run begins with the first frame")
        if before is not None:  # hosts may still have its processes: they end them for a later attempt
            new = replace(new, run=before.run, attempt=before.attempt + 1)
        return StateFolder(path, new, None, lock)
    if before.phase is RunPhase.DONE:
        return StateFolder(path, before if resume else new, None, lock)
    if not resume:
        raise PipelineError(
            f"{path} holds the progress of a run that has not ended",
            f"go on with it by --resume, remove {os.path.join(path, FILE)}, {_OTHER}",
        )
    return StateFolder(path, replace(before, attempt=before.attempt + 1, parts=new.parts), before, lock)


def _require_same(path: str, before: RunRecord, spec: PipelineSpec, free: Collection[str]) -> None:
    """Refuse to go on with a run of another pipeline; PipelineError."""
    if before.phase is not RunPhase.RUNNING:
        return
    if changed := difference(before.parts, fingerprint(spec), free):
        raise PipelineError(
            f"{path}: {changed} since the run whose progress is kept here",
            f"use the pipeline as it was; to begin again leave out --resume and remove "
            f"{os.path.join(path, FILE)}, {_OTHER}",
        )


def _lock(descriptor: int, path: str, patience: float) -> None:
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise PipelineError(
                    f"{path}: another run keeps its progress here", f"wait for its end, {_OTHER}"
                ) from None
            time.sleep(_PAUSE)
        else:
            return


def _read(path: str) -> RunRecord | None:
    place = os.path.join(path, FILE)
    try:
        with open(place, encoding="utf-8") as file:
            return RECORDS.decode(file.read(_LARGEST))
    except FileNotFoundError:
        return None
    except NewerFormatError as error:
        raise PipelineError(f"{place}: {error}", error.hint) from None
    except (OSError, ValueError):
        raise PipelineError(
            f"{place} cannot be read, or is damaged", f"remove it to begin a run, {_OTHER}"
        ) from None


def _remove_unfinished(path: str) -> None:
    """Remove what a coordinator that was killed has left of a write."""
    for name in os.listdir(path):
        if name.startswith(f"{FILE}.") and name.endswith(".part"):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(path, name))


def boot_id() -> str:
    """Return which boot of the machine this is; empty where the kernel does not say."""
    try:
        with open(_BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
