"""UploadQueue: uploads that wait for the store, durable from the moment that `put` returns.

The content is a file of the spool, its record a row of an SQLite database that is synced with each change. An
upload leaves the queue in the same transaction that records what the store now holds.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from fairlead.device.place import DevicePlace, locked
from fairlead.device.spool import StagedContent, stage
from fairlead.errors import DeviceError, OutputError

_BUSY_SECONDS: Final = 30.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS uploads (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, content TEXT NOT NULL, size INTEGER NOT NULL,
    sha256 TEXT NOT NULL, base TEXT, after INTEGER, replace INTEGER NOT NULL, queued REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, next_try REAL NOT NULL DEFAULT 0, problem TEXT NOT NULL DEFAULT '',
    refused INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, etag TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL, upload INTEGER);
CREATE TABLE IF NOT EXISTS conflicts (
    path TEXT NOT NULL, kept TEXT NOT NULL, time REAL NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class QueuedUpload:
    """One upload that waits."""

    id: int
    path: str
    """The path in the store, from its root, without a slash before it."""
    content: str
    """The name of the file in the spool."""
    size: int
    sha256: str
    base: str | None
    """The entity tag of the version that this upload replaces; None: the path was new to the device."""
    after: int | None
    """The earlier upload of the same path whose result this one replaces."""
    replace: bool
    """Replace whatever the store has."""
    queued: float
    tries: int = 0
    next_try: float = 0.0
    problem: str = ""
    """Why the last try failed."""
    refused: bool = False
    """The store will not take it as it is: it waits for its user."""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file of the store as this device last saw it."""

    path: str
    etag: str
    size: int
    sha256: str
    upload: int | None = None
    """The upload of this device that made it."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two versions of a file: the store's at its path, this device's under another name."""

    path: str
    kept: str
    time: float


class UploadQueue:
    """The queue of one device; several processes may use it at once."""

    def __init__(self, place: DevicePlace) -> None:
        self._place = place
        try:
            self._db = sqlite3.connect(place.database, timeout=_BUSY_SECONDS, isolation_level=None)
            os.chmod(place.database, 0o600)
            for line in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-256"):
                self._db.execute(f"PRAGMA {line}")
            self._db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            raise DeviceError(
                f"{place.database}: the queue cannot be opened: {error}",
                f"its contents are in {place.spool}; move the database away to begin a new queue",
            ) from None

    def __enter__(self) -> "UploadQueue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def add(
        self, source: str, path: str, now: float, *, link: bool = False, replace: bool = False
    ) -> QueuedUpload:
        """Queue the content that a file has now; once this returns, the upload survives a power cut."""
        with locked(self._lock_path, exclusive=False, wait=True):
            staged = stage(source, self._place.spool, link=link)
            with self._transaction():
                return self._insert(staged, path, now, replace)

    def _insert(self, staged: StagedContent, path: str, now: float, replace: bool) -> QueuedUpload:
        known = self.known(path)
        base = known.etag if known else None
        after = self._execute("SELECT max(id) FROM uploads WHERE path = ?", (path,)).fetchone()[0]
        content = (staged.name, staged.size, staged.sha256)
        cursor = self._execute(
            "INSERT INTO uploads (path, content, size, sha256, base, after, replace, queued) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (path, *content, base, after, replace, now),
        )
        return QueuedUpload(cursor.lastrowid or 0, path, *content, base, after, replace, now)

    def get(self, number: int) -> QueuedUpload | None:
        """Return an upload; None: it is not queued any more."""
        row = self._execute("SELECT * FROM uploads WHERE id = ?", (number,)).fetchone()
        return _upload(row) if row else None

    def uploads(self) -> list[QueuedUpload]:
        """Return all uploads, the oldest first."""
        return [_upload(row) for row in self._execute("SELECT * FROM uploads ORDER BY id")]

    def next_due(self, now: float) -> QueuedUpload | None:
        """Return the oldest upload that may be tried now; uploads of one path keep their order."""
        row = self._execute(
            "SELECT * FROM uploads AS u WHERE NOT refused AND next_try <= ? AND NOT EXISTS "
            "(SELECT 1 FROM uploads AS e WHERE e.path = u.path AND e.id < u.id) ORDER BY id LIMIT 1",
            (now,),
        ).fetchone()
        return _upload(row) if row else None

    def next_time(self) -> float | None:
        """Return when the next upload may be tried; None: none waits for a time."""
        row = self._execute("SELECT min(next_try) FROM uploads WHERE NOT refused").fetchone()
        return None if row[0] is None else float(row[0])

    def totals(self) -> tuple[int, int, int]:
        """Return how many uploads wait, how many of them are refused, and the bytes of all."""
        row = self._execute("SELECT count(*), total(refused), total(size) FROM uploads").fetchone()
        return int(row[0]), int(row[1]), int(row[2])

    def base_of(self, upload: QueuedUpload) -> str | None:
        """Return the entity tag that the store must have for this upload; None: the path must be new."""
        known = self.known(upload.path)
        if upload.after is not None and known is not None and known.upload == upload.after:
            return known.etag
        return upload.base

    def delivered(self, upload: QueuedUpload, file: KnownFile, conflict: Conflict | None = None) -> None:
        """Record what the store now holds, and take the upload from the queue."""
        with self._transaction():
            self._remember(file)
            if conflict is not None:
                self._execute(
                    "INSERT INTO conflicts VALUES (?, ?, ?)", (conflict.path, conflict.kept, conflict.time)
                )
            self._execute("DELETE FROM uploads WHERE id = ?", (upload.id,))
        self._remove_content(upload)

    def postpone(self, upload: QueuedUpload, problem: str, next_try: float, *, counts: bool = True) -> None:
        """Record why a try failed, and when the next one is due."""
        self._execute(
            "UPDATE uploads SET tries = tries + ?, next_try = ?, problem = ? WHERE id = ?",
            (int(counts), next_try, problem, upload.id),
        )

    def refuse(self, upload: QueuedUpload, problem: str) -> None:
        """Record that the store will not take an upload: it is kept, and not tried again by itself."""
        self._execute(
            "UPDATE uploads SET tries = tries + 1, refused = 1, problem = ? WHERE id = ?",
            (problem, upload.id),
        )

    def retry_all(self) -> None:
        """Let every upload be tried now, also those that were refused."""
        self._execute("UPDATE uploads SET refused = 0, next_try = 0")

    def drop(self, upload: QueuedUpload) -> None:
        """Remove an upload that its user gave up."""
        self._execute("DELETE FROM uploads WHERE id = ?", (upload.id,))
        self._remove_content(upload)

    def known(self, path: str) -> KnownFile | None:
        """Return what this device knows of a file in the store."""
        row = self._execute(
            "SELECT path, etag, size, sha256, upload FROM files WHERE path = ?", (path,)
        ).fetchone()
        return KnownFile(*row) if row else None

    def remember(self, file: KnownFile) -> None:
        """Record what the store has at a path."""
        with self._transaction():
            self._remember(file)

    def conflicts(self) -> list[Conflict]:
        """Return the conflicts that were found, the latest first."""
        rows = self._execute("SELECT path, kept, time FROM conflicts ORDER BY time DESC LIMIT 1000")
        return [Conflict(*row) for row in rows]

    def content_path(self, upload: QueuedUpload) -> str:
        """Return the path of an upload's content."""
        return os.path.join(self._place.spool, upload.content)

    def sweep(self) -> int:
        """Remove contents that no upload names, left by a process that was killed; return their number."""
        with locked(self._lock_path, exclusive=True) as held:
            if not held:  # an upload is being queued right now
                return 0
            named = {row[0] for row in self._execute("SELECT content FROM uploads")}
            left = [name for name in os.listdir(self._place.spool) if name not in named]
            for name in left:
                os.unlink(os.path.join(self._place.spool, name))
            return len(left)

    @property
    def _lock_path(self) -> str:
        return os.path.join(self._place.folder, "spool.lock")

    def _remember(self, file: KnownFile) -> None:
        self._execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)",
            (file.path, file.etag, file.size, file.sha256, file.upload),
        )

    def _remove_content(self, upload: QueuedUpload) -> None:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._place.spool, upload.content))

    def _execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise OutputError(
                f"{self._place.database}: the queue cannot be written: {error}",
                "make room on the disk; what was queued before is kept",
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._execute("ROLLBACK")
            raise
        self._execute("COMMIT")


def _upload(row: tuple[object, ...]) -> QueuedUpload:
    values = list(row)
    values[7], values[12] = bool(values[7]), bool(values[12])
    return QueuedUpload(*values)  # type: ignore[arg-type]  # SQLite's columns have these types
