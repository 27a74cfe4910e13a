"""Lists with kubectl's options: `-o wide|name`, `--no-headers`, `--sort-by`; the same for every command."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from fairlead.cli.output.table import Cell, Column, Row, Table
from fairlead.errors import SettingsError

LISTS: Final = ("table", "wide", "name", "json", "yaml")
"""The outputs of a list; `wide` has more columns, `name` the names alone."""
Item = TypeVar("Item")
Key = tuple[int, float, str]
_MISSING: Final = ("", "-")
_FIGURES: Final = re.compile(r"[-+]?\d+(?:\.\d+)?")


def sorted_by(
    items: Sequence[Item],
    name: str | None,
    columns: Sequence[str | Column],
    row: Callable[[Item], Row],
    document: Callable[[Item], Mapping[str, Any]] | None = None,
) -> list[Item]:
    """Return items sorted by a column, or by a field of their JSON; items without a value come last."""
    if not name:
        return list(items)
    names = [each if isinstance(each, str) else each.name for each in columns]
    index = next((number for number, each in enumerate(names) if _matches(each, name)), None)
    if index is not None:
        return sorted(items, key=lambda item: _key(row(item)[index]))
    if not items:
        return []  # without an item, the fields of its JSON are unknown
    path = name.strip("{}").removeprefix(".").split(".")
    if document is not None and any(_field(document(item), path) is not None for item in items):
        return sorted(items, key=lambda item: _key(_field(document(item), path)))
    fields = list(document(items[0])) if document is not None else []
    if path[0] in fields:
        return list(items)  # no item has a value for this field
    more = f"; fields of -o json: {', '.join(fields)}" if fields else ""
    raise SettingsError(
        f"--sort-by {name}: no such column", f"columns: {', '.join(filter(None, names))}{more}"
    )


def select_columns(head: Sequence[str | Column], rows: Sequence[Row], output: str, *, headers: bool) -> Table:
    """Return the columns that an output shows: `wide` all of them, `name` one, without a header."""
    whole = Table.of(head, rows, headers=headers)
    if output == "name":
        marked = [index for index, each in enumerate(whole.columns) if each.identity]
        kept = marked[:1] or [0]
    else:
        kept = [index for index, each in enumerate(whole.columns) if output == "wide" or not each.wide]
    return Table(
        tuple(whole.columns[index] for index in kept),
        tuple(tuple(row[index] for index in kept) for row in whole.rows),
        headers and output != "name",
    )


def _matches(column: str, name: str) -> bool:
    return bool(column) and column.lower().replace(" ", "-") == name.lower().replace(" ", "-").replace(
        "_", "-"
    )


def _field(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document.get(part) if isinstance(document, Mapping) else None
    return document


def _key(value: Any) -> Key:
    """Return a sort key: numbers by size, then texts, then missing values."""
    if isinstance(value, Cell):
        value = value.text if value.value is None else value.value
    if value is None or (isinstance(value, str) and value in _MISSING):
        return 2, 0.0, ""
    if isinstance(value, int | float):
        return 0, float(value), ""
    if isinstance(value, Mapping | list | tuple):
        return 0, float(len(value)), ""
    text = str(value)
    return (0, float(text), "") if _FIGURES.fullmatch(text) else (1, 0.0, text.lower())
