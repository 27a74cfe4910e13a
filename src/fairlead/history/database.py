"""The database of a history: opened for one short transaction, repaired where it is damaged.

Homes may lie on NFS: the database has a rollback journal, because a write-ahead log needs shared memory. Each
call opens it and closes it again, so that no lock outlives a call.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # opening the module takes some milliseconds, and a first job has no history
    import sqlite3

SCHEMA: Final = 1
"""The version of the tables below; a database of a newer one is left alone."""
WRITE_WAIT: Final = 10.0
READ_WAIT: Final = 1.0
"""Seconds for which a call waits for the lock of another process."""
_MODE: Final = 0o600
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS schema (version INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS jobs (sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, "
    "submitted REAL NOT NULL, user TEXT NOT NULL, record TEXT NOT NULL, output TEXT NOT NULL, "
    "argv TEXT NOT NULL, UNIQUE (id, submitted))",
    "CREATE TABLE IF NOT EXISTS commands (key TEXT PRIMARY KEY, updated REAL NOT NULL, "
    "learned TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS commands_updated ON commands (updated)",
)


class HistoryProblem(Exception):  # noqa: N818 - it never leaves the room: a history fails no job
    """The database cannot be used now; the text says why, in one line."""


class DamagedHistory(HistoryProblem):
    """The file is no database, or a damaged one."""


class MovedHistory(HistoryProblem):
    """Another process has set the file aside meanwhile: what was written is in the wrong one."""


@contextmanager
def reading(path: str) -> "Iterator[sqlite3.Connection | None]":
    """Open a database to read it; None: there is none."""
    if not os.path.exists(path):
        yield None
        return
    # After a writer was killed, a reader must roll its transaction back, and write for that.
    mode = "rw" if os.access(path, os.W_OK) else "ro"
    with _connected(path, READ_WAIT, mode) as connection:
        yield connection if _version(connection, path) else None


@contextmanager
def writing(path: str) -> "Iterator[sqlite3.Connection]":
    """Open a database for one transaction, which is kept if the block ends without an error."""
    inode = _create(path)
    try:
        with _connected(path, WRITE_WAIT, "rw") as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES:
                connection.execute(statement)
            if not _version(connection, path):
                connection.execute("INSERT INTO schema VALUES (?)", (SCHEMA,))
            yield connection
            connection.execute("COMMIT")
    except HistoryProblem as problem:
        if _inode(path) != inode:
            raise MovedHistory(str(problem)) from None
        raise
    if _inode(path) != inode:
        raise MovedHistory(f"{path}: set aside by another process")


def set_aside(path: str) -> str:
    """Rename a damaged database, so that a new one is begun; return its new path.

    Of several processes that find the damage, the first one renames it: the others find a sound one.
    """
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if not _is_damaged(path):
            return ""
        aside = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
        os.rename(path, aside)
        with suppress(FileNotFoundError):
            os.rename(f"{path}-journal", f"{aside}-journal")
        return aside
    except OSError as error:
        raise HistoryProblem(f"{path}: damaged, and it cannot be set aside: {error.strerror}") from None
    finally:
        os.close(folder)


def _is_damaged(path: str) -> bool:
    try:
        with reading(path) as connection:
            if connection is not None:
                rows = connection.execute("PRAGMA quick_check(1)").fetchall()
                return rows != [("ok",)]
    except DamagedHistory:
        return True
    except HistoryProblem:
        return False
    return False


def _create(path: str) -> int:
    """Create the file unless it is there; return its inode."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
        try:
            return os.fstat(file).st_ino
        finally:
            os.close(file)
    except OSError as error:
        raise HistoryProblem(f"{path}: {error.strerror}") from None


def _inode(path: str) -> int:
    """Return the inode of a file; 0: there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


@contextmanager
def _connected(path: str, wait: float, mode: str) -> "Iterator[sqlite3.Connection]":
    import sqlite3  # noqa: PLC0415 - see above
    from urllib.parse import quote  # noqa: PLC0415

    try:
        uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode={mode}"
        with closing(sqlite3.connect(uri, timeout=wait, isolation_level=None, uri=True)) as connection:
            yield connection
    except sqlite3.OperationalError as error:
        raise HistoryProblem(f"{path}: {error}") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise DamagedHistory(f"{path}: {error}") from None


def _version(connection: "sqlite3.Connection", path: str) -> int:
    """Return the version of the tables; 0: there are none yet."""
    known = connection.execute("SELECT name FROM sqlite_master WHERE name = 'schema'").fetchone()
    row = connection.execute("SELECT max(version) FROM schema").fetchone() if known else None
    version = row[0] if row and isinstance(row[0], int) else 0
    if version > SCHEMA:
        raise HistoryProblem(
            f"{path}: history format {version}, but this program keeps up to {SCHEMA} (upgrade fairlead)"
        )
    return version
