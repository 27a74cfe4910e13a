"""The threads of a worker beside its exchanges: one for each slot, one that fetches, one that uploads."""

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from fairlead.errors import FairleadError, StoreUnavailableError
from fairlead.splitwork.books import WorkBooks
from fairlead.splitwork.journal import ResultJournal
from fairlead.splitwork.task import (
    FinishedInput,
    GivenUp,
    InputExecutor,
    InputFailure,
    Made,
    StoreLink,
    WorkTask,
)

MOST_INLINE: Final = 64 << 10
"""Bytes of a result that goes with an exchange; a larger one is uploaded before."""
_PAUSE: Final = 0.5
_NAME: Final = 50
"""Characters of an input's name that are kept, from its end."""
_TRIES: Final = 3


class WorkSlot(threading.Thread):
    """Runs one input after the other."""

    def __init__(
        self,
        books: WorkBooks,
        executor: InputExecutor,
        journal: ResultJournal,
        folder: str,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="slot", daemon=True)
        self.executor = executor
        self.task: WorkTask | None = None
        self.began = 0.0
        self._books = books
        self._journal = journal
        self._folder = folder
        self._say = say

    def run(self) -> None:
        """Run inputs until the end."""
        while (task := self._books.next_ready()) is not None:
            self.began = time.monotonic()
            self.task = task
            target = f"{self._folder}/result-{secrets.token_hex(8)}"
            try:
                made = self.executor.run(task, target)
            except Exception as error:  # noqa: BLE001  # what runs is the user's; the next input may do
                made = InputFailure(None, f"{type(error).__name__}: {error}")
            self.task = None
            self._end(task, made, target, time.monotonic() - self.began)

    def drop(self, numbers: Collection[int]) -> None:
        """Give up the input that runs, if another worker has its result."""
        task = self.task
        if task is not None and task.lease.input in numbers:
            self.executor.drop(task)

    def _end(self, task: WorkTask, made: Made, target: str, seconds: float) -> None:
        if task.fetched:
            _remove(task.source)
        if isinstance(made, GivenUp):
            _remove(target)
            self._books.give_up(task.lease.input)
            return
        interval = self._books.interval_of(task)
        try:
            finished = _finished(task, made, target, seconds, interval)
        except OSError as error:
            failure = InputFailure(None, f"its result cannot be read: {error.strerror}")
            finished = FinishedInput(task.lease, seconds, interval, failure=failure)
        while not self._books.ending:
            try:
                self._journal.add(finished)
                break
            except OSError as error:
                self._say(f"a finished result cannot be kept, the work waits: {error.strerror}")
                time.sleep(_PAUSE)
        self._books.finish(finished)


class InputFetcher(threading.Thread):
    """Fetches the bytes of inputs before their turn comes."""

    def __init__(self, books: WorkBooks, link: StoreLink, journal: ResultJournal, folder: str) -> None:
        super().__init__(name="fetch", daemon=True)
        self._books = books
        self._link = link
        self._journal = journal
        self._folder = folder

    def run(self) -> None:
        """Fetch until the end."""
        tries: dict[int, int] = {}
        while (task := self._books.next_to_fetch()) is not None:
            number = task.lease.input
            try:
                self._fetch(task)
                tries.pop(number, None)
                continue
            except StoreUnavailableError:
                _wait(self._books, _PAUSE)
            except (FairleadError, OSError) as error:
                tries[number] = tries.get(number, 0) + 1
                if tries[number] >= _TRIES:
                    self._fail(task, str(error))
                    del tries[number]
                else:
                    _wait(self._books, _PAUSE)
            self._books.not_fetched(task)

    def _fetch(self, task: WorkTask) -> None:
        lease = task.lease
        if not lease.where:
            raise FairleadError(f"{lease.path}: its bytes are neither here nor in the store")
        # Programs and models tell by the end of a name what a file is.
        name = os.path.basename(lease.path)[-_NAME:]
        target = f"{self._folder}/input-{secrets.token_hex(8)}-{name}"
        try:
            self._link.fetch(lease.where, target)
            if digest_of(target) != lease.digest:
                raise FairleadError(f"{lease.path}: the store has other bytes than the input's")
            kept = self._books.fetched(task, target)
        except BaseException:
            _remove(target)
            raise
        if not kept:
            _remove(target)

    def _fail(self, task: WorkTask, why: str) -> None:
        if self._books.is_waiting(task):
            finished = FinishedInput(task.lease, 0.0, 0.0, failure=InputFailure(None, why))
            with suppress(OSError):
                self._journal.add(finished)
            self._books.finish(finished)


class ResultUploader(threading.Thread):
    """Uploads results that are too large for an exchange."""

    def __init__(self, books: WorkBooks, link: StoreLink, say: Callable[[str], None]) -> None:
        super().__init__(name="upload", daemon=True)
        self._books = books
        self._link = link
        self._say = say

    def run(self) -> None:
        """Upload until the end."""
        while (finished := self._books.next_to_stage()) is not None:
            name = f"{finished.lease.input}-{finished.lease.lease}-{secrets.token_hex(4)}"
            try:
                path = self._link.stage(name, finished.file, finished.digest, finished.size)
            except (FairleadError, OSError) as error:
                if not isinstance(error, StoreUnavailableError):
                    self._say(f"{finished.lease.path}: its result is not uploaded yet: {error}")
                _wait(self._books, _PAUSE)
                continue
            self._books.staged(finished, path)


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _finished(task: WorkTask, made: Made, target: str, seconds: float, interval: float) -> FinishedInput:
    if isinstance(made, InputFailure):
        _remove(target)
        return FinishedInput(task.lease, seconds, interval, failure=made)
    if made is None:
        size = os.stat(target).st_size
        if size > MOST_INLINE:
            return FinishedInput(task.lease, seconds, interval, digest_of(target), size, file=target)
        with open(target, "rb") as file:
            made = file.read()
        _remove(target)
    elif isinstance(made, bytes) and len(made) > MOST_INLINE:
        with open(target, "wb") as out:
            out.write(made)
        return FinishedInput(task.lease, seconds, interval, digest_of(target), len(made), file=target)
    assert isinstance(made, bytes)
    return FinishedInput(task.lease, seconds, interval, hashlib.sha256(made).hexdigest(), len(made), made)


def _wait(books: WorkBooks, seconds: float) -> None:
    end = time.monotonic() + seconds
    with books.changed:
        while not books.ending and (left := end - time.monotonic()) > 0:
            books.changed.wait(left)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
