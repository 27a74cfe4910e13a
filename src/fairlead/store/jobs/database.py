"""JobsDatabase: jobs, inputs and results in SQLite; a commit is one transaction that is on the disk.

Inputs stay here: memory holds a window of them. A result of at most 64 KiB is in the database until its
file is on the disk under its name, which may be much later than its commit.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from fairlead.store.jobs.records import (
    FAILED,
    PENDING,
    Committed,
    NewInput,
    OfferedFailure,
    OfferedResult,
    SplitJobRecord,
    UnplacedResult,
    WorkerRecord,
)
from fairlead.store.refusal import RefusedError

GONE: Final = "the file was removed before a worker elsewhere needed it"
CHANGED: Final = "the file was changed before a worker elsewhere needed it; its new content is another input"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, spec TEXT NOT NULL,
    state TEXT NOT NULL, complete INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, started REAL, last REAL);
CREATE TABLE IF NOT EXISTS inputs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL, path TEXT NOT NULL, digest TEXT NOT NULL,
    size INTEGER NOT NULL, stored INTEGER NOT NULL, place TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 0,
    worker TEXT, seconds REAL, number INTEGER, result TEXT, result_size INTEGER, staged TEXT, exit INTEGER,
    error TEXT, unplaced INTEGER NOT NULL DEFAULT 0, UNIQUE (job, path, digest));
CREATE INDEX IF NOT EXISTS pending ON inputs (job, seq) WHERE state = 0;
CREATE INDEX IF NOT EXISTS failed ON inputs (job, seq) WHERE state = 2;
CREATE INDEX IF NOT EXISTS results ON inputs (job, number) WHERE state = 1;
CREATE INDEX IF NOT EXISTS unplaced ON inputs (number) WHERE unplaced = 1;
CREATE TABLE IF NOT EXISTS contents (number INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS workers (
    job INTEGER NOT NULL, name TEXT NOT NULL, site TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0, seconds REAL NOT NULL DEFAULT 0, PRIMARY KEY (job, name));
"""
_JOBS: Final = "SELECT number, id, spec, state, complete, created, started, last FROM jobs "


class JobsDatabase:
    """The database of one store; its caller lets one thread at a time use it."""

    def __init__(self, path: str, *, sync: bool = True) -> None:
        # The requests' threads take turns.
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        # Exclusive: without shared memory, which volumes over a network do not have.
        settings = ("locking_mode=EXCLUSIVE", "journal_mode=WAL", f"synchronous={'FULL' if sync else 'OFF'}")
        for line in (*settings, "cache_size=-2048", "wal_autocheckpoint=1000"):
            self._database.execute(f"PRAGMA {line}")
        self._database.executescript(_SCHEMA)
        self._number = int(self._one("SELECT max(number) FROM inputs")[0] or 0)

    @property
    def last_number(self) -> int:
        """The number of the last commit."""
        return self._number

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do what the block does at once and durably, or not at all."""
        number = self._number
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")
        except BaseException as error:
            self._number = number
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise RefusedError(507, f"the record of the jobs cannot be written: {error}") from None
            raise

    def make(self, name: str, spec: str, now: float) -> None:
        """Add a job."""
        with self.transaction():
            self._database.execute(
                "INSERT INTO jobs (id, spec, state, created) VALUES (?, ?, 'running', ?)", (name, spec, now)
            )

    def job(self, name: str) -> SplitJobRecord | None:
        """Return a job."""
        row = self._database.execute(_JOBS + "WHERE id = ?", (name,)).fetchone()
        return _record(row) if row else None

    def jobs(self, state: str = "") -> list[SplitJobRecord]:
        """Return the last thousand jobs, or those in a state, the newest first."""
        chosen = "WHERE state = ? " if state else "WHERE ? = '' "
        rows = self._database.execute(_JOBS + chosen + "ORDER BY number DESC LIMIT 1000", (state,))
        return [_record(row) for row in rows]

    def set_state(self, job: int, state: str, *, complete: bool, started: float | None) -> None:
        """Change the state of a job."""
        with self.transaction():
            self._database.execute(
                "UPDATE jobs SET state = ?, complete = ?, started = ? WHERE number = ?",
                (state, complete, started, job),
            )

    def counts(self, job: int) -> tuple[int, int, int]:
        """Return how many inputs are pending, done and failed."""
        # By the indexes of the few, and by what workers have done: a list of jobs must not read all inputs.
        row = self._database.execute(
            "SELECT (SELECT count(*) FROM inputs WHERE job = ?1 AND state = 0), "
            "(SELECT total(done) FROM workers WHERE job = ?1), "
            "(SELECT count(*) FROM inputs WHERE job = ?1 AND state = 2)",
            (job,),
        ).fetchone()
        return int(row[0]), int(row[1]), int(row[2])

    def add(self, job: int, inputs: Sequence[NewInput]) -> tuple[int, list[int]]:
        """Add inputs; return how many are new, and the known ones whose bytes are stored only now."""
        new, stored = 0, []
        with self.transaction():
            for each in inputs:
                done = self._database.execute(
                    "INSERT OR IGNORE INTO inputs (job, path, digest, size, stored, place) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    (job, each.path, each.digest, each.size, each.stored, each.where),
                )
                new += done.rowcount
                if done.rowcount or not each.stored:
                    continue
                changed = self._database.execute(
                    "UPDATE inputs SET stored = 1, place = ? WHERE job = ? AND path = ? AND digest = ? "
                    "AND stored = 0 RETURNING seq",
                    (each.where, job, each.path, each.digest),
                ).fetchall()
                stored += [int(row[0]) for row in changed]
        return new, stored

    def lose(self, job: int, present: Sequence[tuple[str, str]]) -> list[int]:
        """Fail pending inputs of these paths that are not stored and have another digest; return them."""
        lost: list[int] = []
        with self.transaction():
            for path, digest in present:
                rows = self._database.execute(
                    "UPDATE inputs SET state = 2, worker = '', exit = NULL, error = ? WHERE job = ? "
                    "AND path = ? AND digest != ? AND state = 0 AND stored = 0 RETURNING seq",
                    (CHANGED if digest else GONE, job, path, digest),
                ).fetchall()
                lost += [int(row[0]) for row in rows]
        return lost

    def pending(self, job: int, after: int, most: int) -> list[tuple[int, str, str, int, bool, str]]:
        """Return pending inputs in their order: number, path, digest, size, stored, where."""
        rows = self._database.execute(
            "SELECT seq, path, digest, size, stored, place FROM inputs "
            "WHERE job = ? AND state = 0 AND seq > ? ORDER BY seq LIMIT ?",
            (job, after, most),
        )
        return [
            (seq, path, digest, size, bool(stored), place) for seq, path, digest, size, stored, place in rows
        ]

    def commit(
        self,
        job: int,
        worker: tuple[str, str],
        results: Sequence[OfferedResult],
        failures: Sequence[OfferedFailure],
        now: float,
    ) -> Committed:
        """Record results of a worker (name and site); return the inputs whose result, or failure, counts.

        An input that has a result keeps it: this is where each has exactly one.
        """
        if not results and not failures:
            return Committed(frozenset(), frozenset(), 0)
        with self.transaction():
            before = [(each.input, self._accept(job, worker[0], each)) for each in results]
            done = frozenset(number for number, state in before if state is not None)
            failed = frozenset(each.input for each in failures if self._fail(job, worker[0], each))
            seconds = sum(each.seconds for each in results if each.input in done)
            self._database.execute(
                "INSERT INTO workers VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "site = excluded.site, done = done + excluded.done, failed = failed + excluded.failed, "
                "seconds = seconds + excluded.seconds",
                (job, *worker, len(done), len(failed), seconds),
            )
            if done:
                self._database.execute("UPDATE jobs SET last = ? WHERE number = ?", (now, job))
        return Committed(done, failed, sum(state == FAILED for _, state in before))

    def retry(self, job: int) -> int:
        """Let failed inputs be pending again; return how many."""
        with self.transaction():
            done = self._database.execute(
                "UPDATE inputs SET state = 0, exit = NULL, error = NULL WHERE job = ? AND state = 2", (job,)
            )
            return done.rowcount

    def workers(self, job: int) -> list[WorkerRecord]:
        """Return what workers have done for a job."""
        rows = self._database.execute(
            "SELECT name, site, done, failed, seconds FROM workers WHERE job = ? ORDER BY name", (job,)
        )
        return [WorkerRecord(*row) for row in rows]

    def unplaced(self, after: int, most: int) -> list[UnplacedResult]:
        """Return committed results without a file, in the order of their commits."""
        rows = self._database.execute(
            "SELECT i.number, i.job, j.id, i.seq, i.path, i.result, c.data, coalesce(i.staged, ''), "
            "CASE WHEN i.stored AND i.place = '' AND NOT coalesce(json_extract(j.spec, '$.keep_inputs'), 0) "
            "THEN '/jobs/' || j.id || '/in/' || i.path ELSE '' END "
            "FROM inputs AS i JOIN jobs AS j ON j.number = i.job "
            "LEFT JOIN contents AS c ON c.number = i.number "
            "WHERE i.unplaced = 1 AND i.number > ? ORDER BY i.number LIMIT ?",
            (after, most),
        )
        return [UnplacedResult(*row) for row in rows]

    def is_staged(self, path: str, seq: int) -> bool:
        """Return whether an upload is the result of an input."""
        row = self._database.execute("SELECT staged FROM inputs WHERE seq = ?", (seq,)).fetchone()
        return row is not None and row[0] == path

    def waiting_bytes(self, after: int) -> int:
        """Return the bytes of contents that have no file yet."""
        row = self._database.execute(
            "SELECT total(length(data)) FROM contents WHERE number > ?", (after,)
        ).fetchone()
        return int(row[0])

    def has_later(self, job: int, path: str, seq: int) -> bool:
        """Return whether a later version of an input has a result."""
        row = self._database.execute(
            "SELECT 1 FROM inputs WHERE job = ? AND path = ? AND seq > ? AND state = 1 LIMIT 1",
            (job, path, seq),
        ).fetchone()
        return row is not None

    def settle(self, number: int) -> None:
        """Forget the contents of results up to a number: their files are on the disk."""
        with self.transaction():
            self._database.execute(
                "UPDATE inputs SET unplaced = 0 WHERE unplaced = 1 AND number <= ?", (number,)
            )
            self._database.execute("DELETE FROM contents WHERE number <= ?", (number,))

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._database.execute(statement, values).fetchall()

    def _accept(self, job: int, worker: str, result: OfferedResult) -> int | None:
        """Record a result; return the state of its input before, None where that has a result already."""
        number = self._number + 1
        values = (worker, result.seconds, number, result.digest, result.size, result.staged or None)
        for state in (PENDING, FAILED):
            done = self._database.execute(
                "UPDATE inputs SET state = 1, worker = ?, seconds = ?, number = ?, result = ?, "
                "result_size = ?, staged = ?, unplaced = 1, exit = 0, error = NULL "
                "WHERE seq = ? AND job = ? AND state = ?",
                (*values, result.input, job, state),
            )
            if done.rowcount:
                self._number = number
                if result.data is not None:
                    self._database.execute("INSERT INTO contents VALUES (?, ?)", (number, result.data))
                return state
        return None

    def _fail(self, job: int, worker: str, failure: OfferedFailure) -> bool:
        done = self._database.execute(
            "UPDATE inputs SET state = 2, worker = ?, exit = ?, error = ? "
            "WHERE seq = ? AND job = ? AND state = 0",
            (worker, failure.exit, failure.error, failure.input, job),
        )
        return bool(done.rowcount)

    def _one(self, statement: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._database.execute(statement).fetchone()
        return row


def _record(row: tuple[Any, ...]) -> SplitJobRecord:
    number, name, spec, state, complete, created, started, last = row
    return SplitJobRecord(number, name, json.loads(spec), state, bool(complete), created, started, last)
