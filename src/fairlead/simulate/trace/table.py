"""Read a table of jobs: a CSV file with one row for each, and columns named as the fields of a job."""

import csv
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import IO, Final

from fairlead.errors import SettingsError
from fairlead.simulate.trace.fields import TraceFields
from fairlead.simulate.trace.job import Job
from fairlead.simulate.trace.jobs import JobTemplateReader

MOST_BYTES: Final = 256 << 20
_LONGEST: Final = 1 << 20
"""The longest field in characters; no name is longer."""
_REAL: Final = {"real-start": "start", "real-plateau": "plateau", "real-ramp": "ramp"}
"""Columns that form one table of a document."""
_HINT: Final = "give a CSV file, plain or compressed with gzip"


def is_table(path: str) -> bool:
    """Return whether a file is a table, by its name."""
    return path.removesuffix(".gz").endswith(".csv")


def read_rows(path: str) -> tuple[list[str], list[dict[str, str]]]:
    """Return the header and the rows of a CSV file; empty cells are left out."""
    csv.field_size_limit(_LONGEST)
    try:
        with _open_table(path) as stream:
            reader = csv.DictReader(_bounded(stream, path))
            rows = [_cells(row) for row in reader if any(row.values())]
            return [name for name in reader.fieldnames or [] if name], rows
    except (OSError, EOFError, zlib.error, csv.Error, ValueError) as error:
        raise SettingsError(f"{path}: cannot be read: {_error_text(error)}", _HINT) from None


def jobs_of(path: str, rows: list[dict[str, str]], seed: int, templates: JobTemplateReader) -> Iterator[Job]:
    """Yield the job of each row."""
    random = Random(f"{seed}/{os.path.basename(path)}")  # noqa: S311 - a simulation, no secret
    for line, row in enumerate(rows, 2):
        cells = {key: _value(key, value) for key, value in row.items() if key not in _REAL}
        real = {_REAL[key]: value for key, value in row.items() if key in _REAL}
        table = TraceFields({**cells, **({"real": real} if real else {})}, f"{path}: line {line}")
        name, at = table.text("name"), table.seconds("at")
        yield templates.read(table.rest(), table.where).job(name, at, random)


def _value(key: str, text: str) -> object:
    """Return the value of a cell: bars separate the items of a list, and priorities are numbers."""
    if "|" in text:
        return text.split("|")
    return int(text) if key == "priority" and text.lstrip("-").isdecimal() else text


def _cells(row: dict[str, str]) -> dict[str, str]:
    if None in row:  # csv keeps the cells beyond the header there
        raise ValueError(f"a row has more cells than the header: {row}")
    return {key.strip(): value.strip() for key, value in row.items() if value and value.strip()}


@contextmanager
def _open_table(path: str) -> Iterator[IO[str]]:
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is not a regular file")
    with open(path, "rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    opener = gzip.open if packed else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
        yield stream


def _bounded(stream: IO[str], path: str) -> Iterator[str]:
    """Yield lines up to a limit; a small compressed file may hold an enormous one."""
    read = 0
    for line in stream:
        read += len(line)
        if read > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
        yield line


def _error_text(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
