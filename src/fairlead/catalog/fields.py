"""Typed access to a parsed TOML table, with errors that name the file, the row and the field."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fairlead.errors import CatalogError

T = TypeVar("T")


class CatalogFields:
    """The fields of one table; a field that is unread at the end is a misspelling."""

    def __init__(self, table: object, where: str) -> None:
        if not isinstance(table, Mapping):
            raise CatalogError(f"{where}: expected a table, found {type(table).__name__}")
        self._table = dict(table)
        self._read: set[str] = set()
        self.where = where

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string; without a default the field is required."""
        return self._take(key, default, str, "a string")

    def flag(self, key: str, default: bool = False) -> bool:
        """Return true or false."""
        return self._take(key, default, bool, "true or false")

    def number(self, key: str) -> float | None:
        """Return a number that is not negative, or None."""
        value = self._take(key, 0.0, (int, float), "a number") if key in self._table else None
        if value is None:
            return None
        if isinstance(value, bool) or not 0 <= value < float("inf"):
            raise self.wrong(key, "a number that is not negative")
        return float(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value: list[Any] = self._take(key, [], list, "a list of strings")
        if not all(isinstance(item, str) and item for item in value):
            raise self.wrong(key, "a list of strings")
        return tuple(value)

    def one_or_more(self, key: str) -> tuple[str, ...]:
        """Return a list of strings that may be written as a single string."""
        return (self.text(key),) if isinstance(self._table.get(key), str) else self.texts(key)

    def parsed(self, key: str, parse: Callable[[str], T]) -> T | None:
        """Return a string field as the quantity that `parse` returns for it, or None."""
        if key not in self._table:
            return None
        try:
            return parse(self.text(key))
        except ValueError as error:
            raise CatalogError(f"{self.where}: {key}: {error}") from None

    def rates(self, key: str, allowed: tuple[str, ...]) -> dict[str, float]:
        """Return a table of numbers whose keys must be among `allowed`."""
        table = self.table(key)
        for name in table.names():
            if name not in allowed:
                hint = f"known: {', '.join(allowed)}"
                raise CatalogError(f"{table.where}: unknown precision {name!r}", hint)
        return {name: table.number(name) or 0.0 for name in table.names()}

    def table(self, key: str) -> "CatalogFields":
        """Return a table inside this one; an absent table is empty."""
        self._read.add(key)
        return CatalogFields(self._table.get(key, {}), f"{self.where}: {key}")

    def tables(self, key: str) -> list["CatalogFields"]:
        """Return a list of tables."""
        value: list[Any] = self._take(key, [], list, "a list of tables")
        return [CatalogFields(item, f"{self.where}: {key}[{n}]") for n, item in enumerate(value)]

    def names(self) -> list[str]:
        """Return the names of the fields."""
        return list(self._table)

    def finish(self) -> None:
        """Refuse fields that were not read."""
        unread = sorted(set(self._table) - self._read)
        if unread:
            hint = f"known here: {', '.join(sorted(self._read))}"
            raise CatalogError(f"{self.where}: unknown field {unread[0]!r}", hint)

    def wrong(self, key: str, expected: str) -> CatalogError:
        """Return the error for a field of the wrong type or form."""
        return CatalogError(f"{self.where}: {key}: expected {expected}, found {self._table.get(key)!r}")

    def _take(self, key: str, default: T | None, kind: type[Any] | tuple[type[Any], ...], what: str) -> T:
        self._read.add(key)
        if key not in self._table:
            if default is None:
                raise CatalogError(f"{self.where}: {key} is missing", f"add {key} = {what}")
            return default
        value = self._table[key]
        if not isinstance(value, kind):
            raise self.wrong(key, what)
        return value  # type: ignore[no-any-return]  # the check above is the proof
