"""Read published latency tables: any CSV with the columns of the reference page; most are optional."""

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Final

from fairlead.errors import SettingsError

_AMOUNTS: Final = {"gmacs": ("macs", 1e9), "mparams": ("params", 1e6), "mactivations": ("activations", 1e6)}
TRAIN: Final = "train"
"""The mode of a whole training step: forward, backward and update."""
_LONGEST: Final = 1 << 20
"""The longest field; no name or note is longer."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement."""

    source: str
    device: str
    runtime: str
    precision: str
    note: str
    model: str
    size: str
    batch: float
    seconds: float
    """Of one inference: for a batch, its share."""
    mode: str
    """`single`, one input at a time; `batched`; `stream`, where only a throughput is known; or `train`."""
    watts: float = math.nan
    amounts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasurementFile:
    """The rows of a file, and the number of records without a time."""

    rows: tuple[Measurement, ...]
    empty: int = 0


def records(path: str) -> tuple[list[str], list[dict[str, str]]]:
    """Return the header and the records of a CSV file, compressed or not."""
    csv.field_size_limit(_LONGEST)
    try:
        with _open_text(path) as stream:
            reader = csv.DictReader(stream)
            rows = [record for record in reader if any(record.values())]
            return [name for name in reader.fieldnames or [] if name], rows
    except (OSError, EOFError, zlib.error, csv.Error, UnicodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise SettingsError(
            f"--data {path}: cannot be read: {reason}", "give a CSV file, plain or .gz"
        ) from error


def read(header: list[str], records: list[dict[str, str]], path: str) -> MeasurementFile:
    """Return the measurements among the records."""
    missing = [name for name in ("device", "model") if name not in header]
    if missing or not {"latency_ms", "throughput_fps"} & set(header):
        names = ", ".join(missing) or "latency_ms or throughput_fps"
        raise SettingsError(f"--data {path}: no column {names}", "see: fairlead docs bench-predict")
    rows = tuple(_rows(records))
    return MeasurementFile(rows, len(records) - len(rows))


def number(text: str | None) -> float:
    """Return a positive number; nan where there is none."""
    try:
        value = float(text or "")
    except ValueError:
        return math.nan
    return value if 0 < value < math.inf else math.nan


def _open_text(path: str) -> IO[str]:
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    if packed:
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return open(path, encoding="utf-8-sig", errors="replace", newline="")


def _rows(records: list[dict[str, str]]) -> Iterator[Measurement]:
    for record in records:
        text = {name: (value or "").strip() for name, value in record.items() if isinstance(value, str)}
        batch = number(text.get("batch"))
        batch = 1.0 if math.isnan(batch) else batch
        seconds, mode = _seconds(number(text.get("latency_ms")), number(text.get("throughput_fps")), batch)
        if math.isnan(seconds) or not text.get("device") or not text.get("model"):
            continue
        mode = TRAIN if text.get("mode", "").lower() == TRAIN else mode
        amounts = {name: number(text.get(key)) * unit for key, (name, unit) in _AMOUNTS.items()}
        yield Measurement(
            source=text.get("source") or "table",
            device=text["device"],
            runtime=text.get("runtime", ""),
            precision=text.get("precision", ""),
            note=text.get("note", ""),
            model=text["model"],
            size=text.get("input_size", ""),
            batch=batch,
            seconds=seconds,
            mode=mode,
            watts=number(text.get("power_w")),
            amounts={name: value for name, value in amounts.items() if not math.isnan(value)},
        )


def _seconds(latency: float, throughput: float, batch: float) -> tuple[float, str]:
    """Return the time of one inference and the mode of its measurement."""
    if math.isnan(latency):
        return 1 / throughput, "stream"
    if batch == 1:
        return latency / 1e3, "single"
    alone = abs(latency * throughput / 1e3 - 1) < 0.3  # then the latency is already that of one input
    return (latency / 1e3 if alone else latency / 1e3 / batch), "batched"
