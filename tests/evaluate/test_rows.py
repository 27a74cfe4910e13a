"""Any table with the required columns is read; the other columns are optional."""

import gzip
import math
from pathlib import Path

import pytest

from fairlead.errors import SettingsError
from fairlead.evaluate.rows import MeasurementFile, number, read, records
from tests.latencies import HEADER, lines, text


def measured(folder: Path, content: str) -> MeasurementFile:
    """Write a table and read it."""
    path = folder / "table.csv"
    path.write_text(content, encoding="utf-8")
    return read(*records(str(path)), str(path))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2.5", 2.5),
        ("", None),
        (None, None),
        ("n/a", None),
        ("-1", None),
        ("0", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_only_a_positive_number_is_read(written: str | None, value: float | None) -> None:
    result = number(written)
    assert math.isnan(result) if value is None else result == value


def test_plain_and_compressed_tables_read_the_same(tmp_path: Path) -> None:
    content = text(lines(2, 3))
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(content.encode()))
    assert read(*records(str(packed)), "") == measured(tmp_path, content)


def test_a_row_without_a_time_is_counted_and_left_out(tmp_path: Path) -> None:
    rows = [line | {"latency_ms": value} for value in ("", "0", "nan", "-3", "5") for line in lines(1, 1)]
    file = measured(tmp_path, text(rows))
    assert (len(file.rows), file.empty) == (1, 4)
    assert file.rows[0].seconds == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("batch", "latency", "fps", "seconds", "mode"),
    [
        ("", "8", "", 0.008, "single"),
        ("1", "8", "900", 0.008, "single"),
        ("4", "8", "", 0.002, "batched"),
        ("4", "8", "500", 0.002, "batched"),
        ("4", "8", "125", 0.008, "batched"),
        ("1", "", "500", 0.002, "stream"),
    ],
    ids=["no batch", "pipelined", "of a batch", "of a batch, with fps", "of one input", "fps alone"],
)
def test_times_are_of_one_inference(
    tmp_path: Path, batch: str, latency: str, fps: str, seconds: float, mode: str
) -> None:
    row = {"device": "d", "model": "m", "batch": batch, "latency_ms": latency, "throughput_fps": fps}
    [measurement] = measured(tmp_path, text([row])).rows
    assert measurement.seconds == pytest.approx(seconds)
    assert measurement.mode == mode


def test_optional_columns_may_be_missing(tmp_path: Path) -> None:
    file = measured(tmp_path, "device,model,latency_ms\nboard,net,4\n")
    assert (file.rows[0].source, file.rows[0].batch, file.rows[0].amounts) == ("table", 1.0, {})


def test_amounts_are_counted_in_ones(tmp_path: Path) -> None:
    row = {"device": "d", "model": "m", "latency_ms": 1, "gmacs": 2, "mparams": 3, "mactivations": ""}
    assert measured(tmp_path, text([row])).rows[0].amounts == {"macs": 2e9, "params": 3e6}


@pytest.mark.parametrize(
    ("header", "lacking"),
    [
        ("model,latency_ms", "device"),
        ("a,b", "device, model"),
        ("device,model", "latency_ms or throughput_fps"),
    ],
)
def test_a_table_without_its_columns_is_refused(tmp_path: Path, header: str, lacking: str) -> None:
    with pytest.raises(SettingsError, match=f"no column {lacking}"):
        measured(tmp_path, f"{header}\n1,2\n")


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(text(lines()).encode())[:-20])
    long = tmp_path / "long.csv"
    long.write_text("device,model,latency_ms\n" + "x" * (1 << 21))
    for path in (str(cut), str(long), str(tmp_path), str(tmp_path / "none.csv")):
        with pytest.raises(SettingsError, match="cannot be read"):
            records(path)


def test_garbage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(SettingsError):
        read(*records(str(path)), str(path))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no column"):
        measured(tmp_path, "")


def test_longer_and_shorter_lines_do_no_harm(tmp_path: Path) -> None:
    file = measured(tmp_path, "device,model,latency_ms\nboard,net,4,5,6\nboard\n\n")
    assert len(file.rows) == 1


def test_the_header_is_the_one_of_published_tables() -> None:
    assert len(HEADER) == len(set(HEADER)) == 16
