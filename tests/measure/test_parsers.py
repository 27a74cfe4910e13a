"""Parsers of small text and of bytes from untrusted files."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.host import total_ticks
from fairlead.measure import Observer
from fairlead.measure.hailo import MONITOR, devices
from fairlead.measure.soc import devfreq_load, rknpu_load
from fairlead.telemetry import Metric
from fairlead.units import Seconds
from tests.accelerators import accelerator
from tests.worlds import Entry, Link, Special, World

WRITTEN = 1_000_000.0


def field(number: int, data: bytes) -> bytes:
    """Return a byte string of a protobuf message."""
    return bytes([number << 3 | 2, len(data)]) + data


def report(device: str, percent: float) -> bytes:
    """Return a report as HailoRT writes it: a pid, a network, and one device's load."""
    load = field(1, device.encode()) + b"\x11" + struct.pack("<d", percent) + field(3, b"HAILO8")
    network = field(1, b"yolov8s") + b"\x11" + struct.pack("<d", 30.0)
    return field(1, b"4711") + field(2, network) + b"\x28\x96\x01" + b"\x35abcd" + field(4, load)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (report("0000:01:00.0", 42.5), [("0000:01:00.0", 0.425)]),
        (report("a", 1.0) + report("b", 2.0), [("a", 0.01), ("b", 0.02)]),
        (report("a", -1.0), []),
        (report("a", float("nan")), []),
        (field(4, field(1, b"idle")), [("idle", 0.0)]),
        (b"", []),
        (b"\x22\xff\xff\xff\xff\x7f" + b"x", []),
        (b"\xff" * 50, []),
    ],
)
def test_hailo_reports(message: bytes, expected: list[tuple[str, float]]) -> None:
    assert dict(devices(message)) == pytest.approx(dict(expected))


@given(st.binary(max_size=300) | st.binary(max_size=40).map(lambda tail: report("a", 5.0) + tail))
def test_any_hailo_report_is_parsed_without_an_exception(message: bytes) -> None:
    assert all(0 <= share <= 1 for _, share in devices(message))


@pytest.mark.parametrize(
    ("entry", "age", "expected"),
    [
        (report("0000:01:00.0", 42.5), 1.0, 0.425),
        (report("0000:01:00.0", 42.5), 60.0, None),
        (report("0000:01:00.0", 42.5), -60.0, None),
        (report("0000:02:00.0", 42.5), 1.0, None),
        (Special.FIFO, 1.0, None),
        (Special.FOLDER, 1.0, None),
        (Link("/dev/zero"), 1.0, None),
    ],
)
def test_hailo_load_comes_from_running_workloads_only(
    world: World, entry: Entry, age: float, expected: float | None
) -> None:
    host = world({f"{MONITOR}/mon_1": entry, f"{MONITOR}/mon_0": report("0000:09:00.0", 1.0)})
    if isinstance(entry, bytes):
        os.utime(f"{host.root}{MONITOR}/mon_1", (WRITTEN, WRITTEN))
    samples = Observer().look(host, [accelerator(driver="hailo")], Seconds(0), Seconds(WRITTEN + age))
    assert next((item.value for item in samples if item.metric is Metric.BUSY), None) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12@1000000000Hz", 0.12),
        ("0@0Hz", 0.0),
        ("100@5", 1.0),
        ("123456@7Hz", None),
        ("101@1Hz", None),
        ("", None),
    ],
)
def test_devfreq_loads(text: str, expected: float | None) -> None:
    assert devfreq_load(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NPU load:  Core0:  10%, Core1:  20%, Core2:  0%,", 0.1),
        ("NPU load:  7%", 0.07),
        ("NPU load:  Core0: 900%,", None),
        ("no load", None),
    ],
)
def test_rockchip_loads(text: str, expected: float | None) -> None:
    assert rknpu_load(text) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("stat", "expected"),
    [
        (b"cpu  1 2 3 40 5 6 7 8 9 9\n", (27, 72)),
        (b"cpu  1 2 3 40 5\n", (6, 51)),
        (b"cpu0 1 2 3 40 5\n", None),
        (b"cpu  1 2 3 40\n", None),
        (b"", None),
    ],
)
def test_processor_ticks(stat: bytes, expected: tuple[int, int] | None) -> None:
    assert total_ticks(stat) == expected


@given(st.text(max_size=60), st.binary(max_size=60))
def test_parsers_accept_any_input(text: str, data: bytes) -> None:
    for load in (devfreq_load(text), rknpu_load(text)):
        assert load is None or 0 <= load <= 1
    ticks = total_ticks(b"cpu" + data)
    assert ticks is None or 0 <= ticks[0] <= ticks[1]
