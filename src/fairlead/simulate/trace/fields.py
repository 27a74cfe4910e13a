"""Typed access to the fields of a table in a user's file; errors name file, row and field."""

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from fairlead.errors import SettingsError
from fairlead.units import Bytes, parse_bytes, parse_duration

T = TypeVar("T")
_MISSING: Final = object()
_MOST: Final = 2.0**62


class TraceFields:
    """One table; a field that remains unread is an error. Amounts are numbers, or texts with a unit."""

    def __init__(self, table: object, where: str) -> None:
        if not isinstance(table, Mapping):
            raise SettingsError(f"{where}: expected fields with names, found {_what(table)}")
        self._table: dict[str, Any] = {str(key): value for key, value in table.items() if value is not None}
        self._read: dict[str, None] = {}
        self.where = where

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; without a default the field is required."""
        value = self._take(key, default)
        return str(value) if isinstance(value, int | float) else self._typed(key, value, str, "a text")

    def integer(self, key: str, default: int | None = None, least: int = 0) -> int:
        """Return a whole number."""
        number = self._number(key, default)
        if number != int(number) or number < least:
            raise self.wrong(key, f"a whole number, {least} or more")
        return int(number)

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number that is not negative."""
        number = self._number(key, default)
        if number < 0:
            raise self.wrong(key, "a number that is not negative")
        return number

    def seconds(self, key: str, default: float | None = None) -> float:
        """Return a duration in seconds: `90s`, `5m`, `1h`, or a bare number of seconds."""
        return self._amount(key, default, parse_duration)

    def memory(self, key: str, default: int | None = None) -> Bytes:
        """Return an amount of memory: `3GiB`, or a bare number of bytes."""
        return Bytes(round(self._amount(key, default, parse_bytes)))

    def memories(self, key: str) -> list[Bytes]:
        """Return a list of ascending amounts of memory, at least one."""
        rows = [TraceFields({key: item}, self.where) for item in self.raw(key)]
        amounts = [row.memory(key) for row in rows]
        if not amounts or amounts != sorted(amounts):
            raise self.wrong(key, "a list of ascending amounts of memory")
        return amounts

    def flag(self, key: str) -> bool:
        """Return true or false."""
        return self._typed(key, self._take(key, False), bool, "true or false")

    def skip(self, key: str) -> None:
        """Count a field as read."""
        self._read[key] = None

    def table(self, key: str) -> "TraceFields":
        """Return a table inside this one; an absent one is empty."""
        return TraceFields(self._take(key, {}), f"{self.where}: {key}")

    def tables(self, key: str) -> list["TraceFields"]:
        """Return a list of tables."""
        value = self._typed(key, self._take(key, []), list, "a list")
        return [TraceFields(table, f"{self.where}: {key}[{at}]") for at, table in enumerate(value)]

    def raw(self, key: str) -> list[Any]:
        """Return a list without conversion."""
        return self._typed(key, self._take(key, []), list, "a list")

    def names(self) -> list[str]:
        """Return the names of all fields."""
        return list(self._table)

    def rest(self) -> dict[str, Any]:
        """Return the fields not read so far, and count them as read."""
        left = {key: value for key, value in self._table.items() if key not in self._read}
        self._read.update(dict.fromkeys(left))
        return left

    def finish(self) -> None:
        """Raise an error for a field that was not read."""
        for key in self._table:
            if key not in self._read:
                close = get_close_matches(key, list(self._read), 1, 0.6)
                hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(self._read)}"
                raise SettingsError(f"{self.where}: unknown field {key!r}", hint)

    def wrong(self, key: str, wanted: str) -> SettingsError:
        """Return the error for a field with an invalid value."""
        return SettingsError(f"{self.where}: {key}: {self._table.get(key)!r} is not {wanted}")

    def _take(self, key: str, default: object) -> Any:
        self._read[key] = None
        value = self._table.get(key, _MISSING if default is None else default)
        if value is _MISSING:
            raise SettingsError(f"{self.where}: {key} is missing")
        return value

    def _typed(self, key: str, value: object, kind: type[T], wanted: str) -> T:
        if not isinstance(value, kind):
            raise self.wrong(key, wanted)
        return value

    def _number(self, key: str, default: float | None) -> float:
        value = self._take(key, default)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            raise self.wrong(key, "a number") from None
        if not abs(number) < _MOST:
            raise self.wrong(key, "a valid number")
        return number

    def _amount(self, key: str, default: float | None, parse: Callable[[str], float]) -> float:
        value = self._take(key, default)
        if not isinstance(value, str):
            return self.number(key, default)
        try:
            amount = float(parse(value))
        except ValueError as error:
            raise SettingsError(f"{self.where}: {key}: {error}") from None
        if not amount < _MOST:
            raise self.wrong(key, "a valid amount")
        return amount


def _what(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
