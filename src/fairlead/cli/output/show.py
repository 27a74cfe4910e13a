"""Print a document as JSON or YAML for programs, or a list as a table for people."""

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead.cli.output.listing import select_columns, sorted_by
from fairlead.cli.output.table import Column, Fit
from fairlead.cli.output.terminal import Page, show_page

FORMATS: Final = ("table", "json", "yaml")
_ESCAPED: Final = '"\\'
_PLAIN_KEY: Final = re.compile(r"(?i)(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-z_][a-z0-9_./-]*")


def to_json(document: object) -> str:
    """Return a document as indented JSON, in ASCII: every terminal can encode it."""
    return json.dumps(document, indent=2)


def to_yaml(document: object, indent: int = 0) -> str:
    """Return a document as block YAML; every string is quoted, so that none is parsed as another type."""
    return "\n".join(_yaml_lines(document, indent))


def _yaml_lines(value: object, indent: int) -> Iterable[str]:
    pad = " " * indent
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            name = key if _PLAIN_KEY.fullmatch(key) else _yaml_scalar(key)
            yield from _yaml_item(f"{pad}{name}:", item, indent + 2)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            if isinstance(item, Mapping) and item:
                first, *rest = _yaml_lines(item, indent + 2)
                yield f"{pad}- {first.lstrip()}"
                yield from rest
            else:
                yield from _yaml_item(f"{pad}-", item, indent + 2)
    else:
        yield f"{pad}{_yaml_scalar(value)}"


def _yaml_item(head: str, item: object, indent: int) -> Iterable[str]:
    if isinstance(item, Mapping | list | tuple) and item:
        yield head
        yield from _yaml_lines(item, indent)
    else:
        yield f"{head} {_yaml_scalar(item)}"


def _yaml_scalar(value: object) -> str:
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    if isinstance(value, str):
        return f'"{"".join(c if " " <= c <= "~" and c not in _ESCAPED else _escape(c) for c in value)}"'
    text = json.dumps(value)
    if isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")  # YAML 1.1 parses 1e+16 as a string
    return text


def _escape(char: str) -> str:
    return f"\\{char}" if char in _ESCAPED else f"\\U{ord(char):08x}"


def to_table(head: Sequence[str | Column], rows: Iterable[Sequence[Any]], *, headers: bool = True) -> str:
    """Return rows in aligned columns, with or without headers, as written to a pipe."""
    return str(Page.of(select_columns(head, list(rows), "table", headers=headers)))


def show_list(
    head: Sequence[str | Column],
    rows: Sequence[Sequence[Any]],
    output: str,
    *,
    headers: bool,
    empty: str = "",
    color: str = "auto",
) -> None:
    """Print a list as a table, or as the names in its first column.

    `empty` is for people: with `-o name` or `--no-headers` an empty list prints nothing.
    """
    table = select_columns(head, rows, output, headers=headers)
    if not rows and table.headers and empty:
        print(empty)
    elif rows or table.headers:
        show_page(Page.of(table), color)


def show(document: object, output: str) -> None:
    """Print a document as JSON or YAML."""
    print(to_yaml(document) if output == "yaml" else to_json(document))


def show_rows(head: Sequence[str], rows: Sequence[Sequence[str]], options: argparse.Namespace) -> None:
    """Print a plain list as its options say; the fields of its JSON are its columns."""
    columns = [Column(head[0], Fit.KEEP), *(Column(each, Fit.PROSE) for each in head[1:])]
    documents = [dict(zip(map(str.lower, head), row, strict=True)) for row in rows]
    documents = sorted_by(documents, options.sort_by, columns, lambda each: tuple(each.values()), dict)
    if options.output in ("json", "yaml"):
        show(documents, options.output)
        return
    cells = [tuple(each.values()) for each in documents]
    show_list(columns, cells, options.output, headers=not options.no_headers, color=options.color)
