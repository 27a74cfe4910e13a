"""JobHistory: one user's ended jobs and what was learned of their commands, in SQLite."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from fairlead.errors import NewerFormatError
from fairlead.history import database
from fairlead.history.database import DamagedHistory, HistoryProblem, MovedHistory
from fairlead.history.files import history_files
from fairlead.history.learned import LEARNED, LearnedCommand
from fairlead.history.learning import learn_run
from fairlead.history.outcome import JobOutcome
from fairlead.job import LocalJob
from fairlead.ledger.place import StateDirectory
from fairlead.ledger.record import JOBS
from fairlead.sizing.footprint import Footprint

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
MOST_JOBS: Final = 10_000
"""Ended jobs that are kept: the last ones that ended."""
MOST_COMMANDS: Final = 1000
"""Commands and models of which sizes are kept: those that ran last."""
_WARNED: Final[set[str]] = set()
"""The problems of which this process has warned: a command opens the history more than once."""
_ATTEMPTS: Final = 4
"""Tries to write: after damage, the next one is in a new database."""


class LearnedFrom(NamedTuple):
    """What a run teaches, and the keys and the name under which it is kept."""

    keys: Sequence[str]
    name: str
    outcome: JobOutcome


class JobHistory:
    """One user's ended jobs and learned sizes. It never fails a job: what it cannot keep, it says once."""

    def __init__(
        self,
        place: StateDirectory,
        path: str,
        others: Sequence[str] = (),
        *,
        warn: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.time,
        most_jobs: int = MOST_JOBS,
        most_commands: int = MOST_COMMANDS,
    ) -> None:
        self.path = path
        """The database that is written; empty: nothing is kept."""
        self._place = place
        self._others = tuple(others)
        self._warn = warn or _print_warning
        self._clock = clock
        self._most_jobs = most_jobs
        self._most_commands = most_commands

    @classmethod
    def open(
        cls, place: StateDirectory, environ: Mapping[str, str], warn: Callable[[str], None] | None = None
    ) -> "JobHistory":
        """Return the history of this user; it falls back to the state directory, then keeps nothing."""
        files = history_files(place, environ)
        history = cls(place, files.path, files.others, warn=warn)
        if files.problem:
            history._warn_once(files.problem)
        return history

    def add(
        self,
        job: LocalJob,
        output: str = "",
        argv: Sequence[str] = (),
        runs: Iterable[LearnedFrom] = (),
    ) -> bool:
        """Keep an ended job and learn from it, in one transaction, once by its id and time of submission.

        Return whether it is kept: if not, its record is all that is left of it.
        """
        rows, now = _rows([(job, output, argv)]), self._clock()

        def keep(connection: "sqlite3.Connection") -> bool:
            if self._insert(connection, rows):  # otherwise it was kept before, and this is another try
                for run in runs:
                    self._learn(connection, run, job, now)
            return True

        return self._write(keep) is not None

    def add_all(self, ended: Iterable[tuple[LocalJob, str, Sequence[str]]]) -> bool:
        """Keep ended jobs, each with its output and its command, in one transaction: all of them, or none."""
        rows = _rows(ended)
        return self._write(lambda connection: self._insert(connection, rows)) is not None

    def jobs(self, limit: int = 200) -> tuple[LocalJob, ...]:
        """Return the last jobs that ended, in that order."""
        query = "SELECT user, record FROM jobs ORDER BY sequence DESC LIMIT ?"
        jobs: dict[tuple[str, float], LocalJob] = {}
        for path in (self.path, *self._others):
            rows = self._read(path, lambda connection: connection.execute(query, (limit,)).fetchall())
            for user, record in rows or ():
                with suppress(ValueError, TypeError, NewerFormatError):
                    job = replace(JOBS.decode(record), uid=self._place.uid, user=str(user))
                    jobs.setdefault((job.id, job.submitted), job)
        if not self._others:
            return tuple(reversed(jobs.values()))
        return tuple(sorted(jobs.values(), key=lambda job: job.ended or job.submitted))[-limit:]

    def output_of(self, job_id: str) -> str | None:
        """Return the path of a job's output; None: no such job, or its output was not kept."""
        output = self._column("output", job_id)
        return os.fsdecode(output) if output else None

    def argv_of(self, job_id: str) -> tuple[str, ...] | None:
        """Return the command of a job; None: no such job."""
        text = self._column("argv", job_id)
        try:
            return None if text is None else tuple(str(word) for word in json.loads(text))
        except (ValueError, TypeError):
            return None

    def learned(self, key: str) -> LearnedCommand | None:
        """Return what is known of a command or a model; None: nothing."""
        for path in (self.path, *self._others):
            known = self._read(path, lambda connection: _learned(connection, key))
            if known is not None:
                return known
        return None

    def footprint(self, key: str) -> Footprint | None:
        """Return what a command or a model takes of an accelerator's memory; None: nothing is known."""
        known = self.learned(key)
        return known.gpu if known else None

    def all_learned(self) -> tuple[LearnedCommand, ...]:
        """Return what is known of every command and model, the last updated first."""
        query = "SELECT key FROM commands ORDER BY updated DESC, key"

        def read(connection: "sqlite3.Connection") -> list[LearnedCommand]:
            keys = [str(row[0]) for row in connection.execute(query)]
            return [known for known in (_learned(connection, key) for key in keys) if known is not None]

        return tuple(self._read(self.path, read) or ())

    def _insert(self, connection: "sqlite3.Connection", rows: Sequence[tuple[Any, ...]]) -> int:
        """Insert ended jobs, and return how many of them are new."""
        new = connection.executemany(
            "INSERT OR IGNORE INTO jobs (id, submitted, user, record, output, argv) VALUES (?,?,?,?,?,?)",
            rows,
        ).rowcount
        connection.execute(
            "DELETE FROM jobs WHERE sequence <= "
            "(SELECT sequence FROM jobs ORDER BY sequence DESC LIMIT 1 OFFSET ?)",
            (self._most_jobs,),
        )
        return new

    def _learn(self, connection: "sqlite3.Connection", run: LearnedFrom, job: LocalJob, now: float) -> None:
        for key in run.keys:
            after = learn_run(_learned(connection, key), key, run.name, run.outcome, job, now)
            connection.execute(
                "INSERT INTO commands (key, updated, learned) VALUES (?,?,?) ON CONFLICT (key) DO UPDATE "
                "SET updated = excluded.updated, learned = excluded.learned",
                (key, after.updated, LEARNED.encode(after)),
            )
        connection.execute(
            "DELETE FROM commands WHERE key IN "
            "(SELECT key FROM commands ORDER BY updated DESC, key LIMIT -1 OFFSET ?)",
            (self._most_commands,),
        )

    def _column(self, name: str, job_id: str) -> str | bytes | None:
        query = f"SELECT {name} FROM jobs WHERE id = ? ORDER BY sequence DESC LIMIT 1"  # noqa: S608 - a constant
        for path in (self.path, *self._others):
            row = self._read(path, lambda connection: connection.execute(query, (job_id,)).fetchone())
            if row is not None and isinstance(row[0], str | bytes):
                return row[0]
        return None

    def _read(self, path: str, read: Callable[["sqlite3.Connection"], T]) -> T | None:
        try:
            with database.reading(path) as connection:
                return None if connection is None else read(connection)
        except DamagedHistory as problem:
            if path == self.path:
                self._set_aside(problem)
        except HistoryProblem as problem:
            self._warn_once(problem, "the history cannot be read")
        return None

    def _write(self, write: Callable[["sqlite3.Connection"], T]) -> T | None:
        """Write in one transaction; None: nothing was kept, and a warning says why."""
        if not self.path:
            return None
        problem: HistoryProblem
        for _ in range(_ATTEMPTS):
            try:
                with database.writing(self.path) as connection:
                    return write(connection)
            except MovedHistory as moved:
                problem = moved
            except DamagedHistory as damaged:
                problem = damaged
                if not self._set_aside(damaged):
                    return None
            except HistoryProblem as other:
                problem = other
                break
        self._warn_once(problem, "this job is not in the history")
        return None

    def _set_aside(self, problem: DamagedHistory) -> bool:
        try:
            aside = database.set_aside(self.path)
        except HistoryProblem as worse:
            self._warn_once(worse)
            return False
        if aside:
            self._warn_once(f"{problem}: set aside as {os.path.basename(aside)}, and a new history is begun")
        return True

    def _warn_once(self, problem: HistoryProblem | str, effect: str = "") -> None:
        """Say a problem once, with its first effect."""
        text = str(problem)
        if text not in _WARNED:
            _WARNED.add(text)
            self._warn(f"{text}: {effect}" if effect else text)


def _learned(connection: "sqlite3.Connection", key: str) -> LearnedCommand | None:
    row = connection.execute("SELECT learned FROM commands WHERE key = ?", (key,)).fetchone()
    try:
        return None if row is None else LEARNED.decode(row[0])
    except (ValueError, NewerFormatError):
        return None


def _rows(ended: Iterable[tuple[LocalJob, str, Sequence[str]]]) -> list[tuple[Any, ...]]:
    return [
        (job.id, job.submitted, job.user, JOBS.encode(job), os.fsencode(output), _json_words(argv))
        for job, output, argv in ended
    ]


def _json_words(argv: Sequence[str]) -> str:
    return json.dumps([word.encode("utf-8", "replace").decode() for word in argv])


def _print_warning(text: str) -> None:
    with suppress(OSError, ValueError):  # the terminal may be gone
        sys.stderr.write(f"fairlead: {text}\n")
