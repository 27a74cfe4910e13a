"""Reader: Hailo, whose load only the workload knows.

Started with HAILO_MONITOR=1, HailoRT writes a small protobuf file once a second; a file that is not fresh
belongs to a process that is gone. The Hailo-10H keeps its scheduler on the chip and writes none.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from fairlead.measure.view import ReaderView
from fairlead.telemetry import Metric, Sample
from fairlead.varint import decode

MONITOR: Final = "/tmp/hmon_files"  # noqa: S108  # HailoRT's fixed place; only read, never written
_FRESH: Final = 5.0
"""Seconds after which a file that is written every second is abandoned."""
_FILES: Final = 32
_DEVICE_INFOS, _DEVICE_ID, _UTILIZATION = 4, 1, 2
_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5


def read(view: ReaderView) -> Iterator[Sample]:
    """Read the load from the files of whatever workloads run."""
    address = view.acc.bus.partition(":")[2].lower()
    shares = [share for data in _fresh(view) for device, share in devices(data) if device.lower() == address]
    if shares:
        yield from view.sample(Metric.BUSY, max(shares))


def _fresh(view: ReaderView) -> Iterator[bytes]:
    for name in view.host.names(MONITOR)[:_FILES]:
        found = view.host.read_with_mtime(f"{MONITOR}/{name}")
        if found and abs(view.date - found[0]) <= _FRESH:
            yield found[1]


def devices(message: bytes) -> list[tuple[str, float]]:
    """Return each device's id and busy share from a ProtoMon message; broken ones give what came before."""
    found = []
    for number, value in _fields(message):
        if number != _DEVICE_INFOS or not isinstance(value, bytes):
            continue
        inner = dict(_fields(value))
        device, percent = inner.get(_DEVICE_ID), inner.get(_UTILIZATION, 0.0)
        if isinstance(device, bytes) and isinstance(percent, float) and 0 <= percent <= 100:
            found.append((device.decode("utf-8", "replace"), percent / 100))
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes | float]]:
    """Walk the wire format up to where it is broken: doubles and byte strings; varints are skipped."""
    at = 0
    with suppress(ValueError):
        while at < len(message):
            key, at = decode(message, at, len(message))
            kind = key & 7
            if kind == _VARINT:
                _, at = decode(message, at, len(message))
            elif kind == _WIDE and at + 8 <= len(message):
                yield key >> 3, float(struct.unpack_from("<d", message, at)[0])
                at += 8
            elif kind == _BYTES:
                size, at = decode(message, at, len(message))
                yield key >> 3, message[at : at + size]
                at += size
            elif kind == _NARROW:
                at += 4
            else:
                return
