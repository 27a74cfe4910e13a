"""Dead properties: what clients store about files, in an SQLite database; bounded for each file."""

import sqlite3
import threading
from typing import Any, Final

from fairlead.store.refusal import RefusedError

_MOST_NAMES: Final = 256
_MOST_BYTES: Final = 64 << 10
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS property (path TEXT, name TEXT, value BLOB, PRIMARY KEY (path, name))"
)


class Properties:
    """Properties by path (without a slash at its end) and name."""

    def __init__(self, path: str) -> None:
        """Open the database, or make it."""
        self._lock = threading.Lock()
        # The requests' threads take turns.
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute(_SCHEMA)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def names(self, path: str) -> list[str]:
        """Return the names of a path's properties."""
        return [name for (name,) in self._all("SELECT name FROM property WHERE path = ? ORDER BY name", path)]

    def get(self, path: str, name: str) -> bytes | None:
        """Return a property; None without it."""
        rows = self._all("SELECT value FROM property WHERE path = ? AND name = ?", path, name)
        return bytes(rows[0][0]) if rows else None

    def check(self, path: str, name: str, value: bytes) -> None:
        """Raise the refusal of a property that would be one too many, or too large."""
        others = [(key, size) for key, size in self._sizes(path) if key != name]
        if len(others) >= _MOST_NAMES or sum(size for _, size in others) + len(value) > _MOST_BYTES:
            raise RefusedError(
                507, f"the properties of this path exceed {_MOST_NAMES} names or {_MOST_BYTES} bytes"
            )

    def set(self, path: str, name: str, value: bytes) -> None:
        """Store a property."""
        self._all("INSERT OR REPLACE INTO property VALUES (?, ?, ?)", path, name, value)

    def remove(self, path: str, name: str) -> None:
        """Remove a property, if it is there."""
        self._all("DELETE FROM property WHERE path = ? AND name = ?", path, name)

    def remove_below(self, path: str) -> None:
        """Remove the properties of a path and of all below it."""
        self._all("DELETE FROM property WHERE path = ? OR substr(path, 1, ?) = ?", path, *_below(path))

    def copy(self, source: str, target: str) -> None:
        """Give a path the properties of another, and no others."""
        with self._lock:
            self._database.execute("BEGIN")
            self._database.execute("DELETE FROM property WHERE path = ?", (target,))
            self._database.execute(
                "INSERT INTO property SELECT ?, name, value FROM property WHERE path = ?", (target, source)
            )
            self._database.execute("COMMIT")

    def move(self, source: str, target: str) -> None:
        """Move the properties of a path and of all below it."""
        with self._lock:
            self._database.execute("BEGIN")
            self._database.execute(
                "DELETE FROM property WHERE path = ? OR substr(path, 1, ?) = ?", (target, *_below(target))
            )
            self._database.execute(
                "UPDATE property SET path = ? || substr(path, ?) WHERE path = ? OR substr(path, 1, ?) = ?",
                (target, len(source) + 1, source, *_below(source)),
            )
            self._database.execute("COMMIT")

    def _sizes(self, path: str) -> list[tuple[str, int]]:
        return self._all("SELECT name, length(value) FROM property WHERE path = ?", path)

    def _all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(statement, values).fetchall()


def _below(path: str) -> tuple[int, str]:
    """Return what the paths below a path begin with, after its length."""
    prefix = path.rstrip("/") + "/"
    return len(prefix), prefix
