"""Series of memory from a CSV file, plain, compressed with gzip, or the only CSV file of a tar archive.

Every row counts or is an error that names its line: a file that was read wrongly must not give advice.
"""

import csv
import gzip
import io
import os
import stat
import sys
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from math import isfinite, isnan
from typing import IO, Final

from fairlead.compat.times import UTC
from fairlead.errors import SettingsError
from fairlead.rightsize.workload import PodSeries
from fairlead.series import Series

MOST_BYTES: Final = 512 << 20
MOST_SERIES: Final = 100_000
MOST_SAMPLES: Final = 10_000_000
STDIN: Final = "-"
LABELS: Final = ("namespace", "pod", "container", "device")
TIMES: Final = ("timestamp", "time", "timestamp_anon")
VALUE: Final = "value"
BUSY: Final = "busy"
_LONGEST: Final = 1 << 16
_MOST_MEMORY: Final = 2**48
_COLUMNS: Final = (
    "columns: timestamp, value (bytes) and perhaps busy (0 to 1); then namespace, pod, container and device, "
    "or one column with any name that distinguishes the series"
)
Point = tuple[float, float | None, float | None]


class _Columns:
    """Which column is what."""

    def __init__(self, where: str, header: list[str]) -> None:
        names = [name.strip() for name in header]
        self.width = len(names)
        if len(set(names)) < len(names):
            raise SettingsError(f"{where}: line 1: two columns have one name", _COLUMNS)
        at = {name.lower(): place for place, name in enumerate(names)}
        times = [at[name] for name in TIMES if name in at]
        if len(times) != 1 or VALUE not in at:
            missing = VALUE if VALUE not in at else TIMES[0]
            raise SettingsError(f"{where}: line 1: no column {missing!r}", _COLUMNS)
        self.time, self.value, self.busy = times[0], at[VALUE], at.get(BUSY)
        self.labels = {name: at[name] for name in LABELS if name in at}
        taken = {self.time, self.value, self.busy, *self.labels.values()}
        others = [name for place, name in enumerate(names) if place not in taken]
        if len(others) > 1 or (others and "pod" in self.labels) or not (others or "pod" in self.labels):
            extra = (
                f"cannot tell what {', '.join(map(repr, others))} are" if others else "nothing names a series"
            )
            raise SettingsError(f"{where}: line 1: {extra}", _COLUMNS)
        self.id = names.index(others[0]) if others else None

    def key(self, row: list[str]) -> tuple[str, ...]:
        """Return the labels of a row, and the id."""
        labels = tuple(row[self.labels[name]].strip() if name in self.labels else "" for name in LABELS)
        return (*labels, row[self.id].strip() if self.id is not None else "")


def read_series(path: str, most: int = MOST_BYTES) -> tuple[tuple[PodSeries, ...], int]:
    """Return the series of a file, and how many of its samples have no value (empty, or NaN).

    A file of more than `most` bytes, unpacked, is refused.
    """
    where = "standard input" if path == STDIN else path
    points: dict[tuple[str, ...], dict[float, Point]] = {}
    csv.field_size_limit(_LONGEST)
    line, samples, gaps = 1, 0, 0
    try:
        with _open(path, most) as stream:
            reader = csv.reader(_bounded(stream, where, most), strict=True)
            columns = _Columns(where, next(reader, []))
            for row in reader:
                line = reader.line_num
                if not any(map(str.strip, row)):
                    continue
                key, point = _read_row(f"{where}: line {line}", columns, row)
                _add(f"{where}: line {line}", points, key, point)
                samples += 1
                gaps += point[1] is None
                if samples > MOST_SAMPLES:
                    raise SettingsError(f"{where}: more than {MOST_SAMPLES:,} samples", "split the file")
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise SettingsError(f"{where}: cannot be read: {_text(error)}", _HINT) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise SettingsError(f"{where}: line {line + 1}: {_text(error)}", _HINT) from None
    if not points:
        raise SettingsError(f"{where}: no samples", _COLUMNS)
    return tuple(_series(key, values) for key, values in points.items()), gaps


_HINT: Final = "give a CSV file in UTF-8, plain, compressed with gzip, or alone in a tar archive"


def _read_row(where: str, columns: _Columns, row: list[str]) -> tuple[tuple[str, ...], Point]:
    if len(row) != columns.width:
        raise SettingsError(
            f"{where}: {len(row)} cells instead of {columns.width}", "correct the row, or remove it"
        )
    key = columns.key(row)
    if not key[1] and not key[-1]:
        raise SettingsError(f"{where}: no pod is named", "name one, or remove the row")
    time = _time(where, row[columns.time])
    value = _number(where, "value", row[columns.value], _MOST_MEMORY)
    busy = _number(where, BUSY, row[columns.busy], 1.0) if columns.busy is not None else None
    return key, (time, value, busy)


def _add(
    where: str, points: dict[tuple[str, ...], dict[float, Point]], key: tuple[str, ...], point: Point
) -> None:
    series = points.setdefault(key, {})
    if len(points) > MOST_SERIES:
        raise SettingsError(f"{where}: more than {MOST_SERIES:,} series", "split the file")
    known = series.setdefault(point[0], point)
    if known != point:
        raise SettingsError(
            f"{where}: a second value for this series and time",
            "remove one of them, or add the column that distinguishes the two series (container, device)",
        )


def _time(where: str, text: str) -> float:
    try:
        return _finite(float(text))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise SettingsError(
            f"{where}: {text[:40]!r} is not a time", "write seconds since the epoch, or 2026-11-17T12:00:00Z"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _number(where: str, name: str, text: str, most: float) -> float | None:
    """Return a number; None: the sample is missing."""
    if not text.strip():
        return None
    try:
        number = float(text)
        if isnan(number):
            return None
        if not 0 <= _finite(number) <= most:
            raise ValueError
    except ValueError:
        hint = "write bytes, for example 8589934592" if name == VALUE else "write a number from 0 to 1"
        raise SettingsError(
            f"{where}: {name} {text[:40]!r} cannot be", f"{hint}, or leave it empty"
        ) from None
    return number


def _finite(number: float) -> float:
    if not isfinite(number):
        raise ValueError
    return number


def _series(key: tuple[str, ...], points: Mapping[float, Point]) -> PodSeries:
    ordered = sorted(points.values(), key=lambda point: point[0])
    memory = [(time, value) for time, value, _ in ordered if value is not None]
    busy = [(time, value) for time, _, value in ordered if value is not None]
    namespace, pod, container, device, name = key
    return PodSeries(
        namespace or ("default" if pod else ""), pod, container, device, name, _of(memory), _of(busy)
    )


def _of(points: list[tuple[float, float]]) -> Series:
    return Series(tuple(time for time, _ in points), tuple(value for _, value in points), "csv")


@contextmanager
def _open(path: str, most: int) -> Iterator[IO[str]]:
    if path == STDIN:
        yield io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", newline="")
        return
    if not stat.S_ISREG(os.stat(path).st_mode) and not stat.S_ISFIFO(os.stat(path).st_mode):
        raise OSError("it is not a file")
    with open(path, "rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b" if plain.seekable() else False
        if plain.seekable():
            plain.seek(0)
        binary: IO[bytes] = gzip.GzipFile(fileobj=plain) if packed else plain  # type: ignore[assignment]
        name = path.removesuffix(".gz")
        if name.endswith((".tar", ".tgz")):
            with tarfile.open(fileobj=binary, mode="r:") as archive:
                yield io.TextIOWrapper(_only_file(archive, most), "utf-8-sig", newline="")
            return
        yield io.TextIOWrapper(binary, "utf-8-sig", newline="")


def _only_file(archive: tarfile.TarFile, most: int) -> IO[bytes]:
    """Return the only CSV file of an archive; nothing is unpacked to the disk."""
    total = 0
    files: list[tarfile.TarInfo] = []
    for member in archive:
        total += member.size
        if total > most:
            raise tarfile.TarError(f"more than {most >> 20} MiB")
        files += [member] if member.isfile() and member.name.endswith(".csv") else []
    content = archive.extractfile(files[0]) if len(files) == 1 else None
    if content is None:
        raise tarfile.TarError(f"{len(files)} CSV files in the archive instead of one")
    return content


def _bounded(stream: IO[str], where: str, most: int) -> Iterator[str]:
    """Yield lines up to a limit: a small compressed file may hold an enormous one."""
    read = 0
    while line := stream.readline(_LONGEST):
        read += len(line)
        if read > most:
            raise SettingsError(f"{where}: more than {most >> 20} MiB", "split the file")
        yield line


def _text(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
