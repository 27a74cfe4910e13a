"""Reader: Hailo, whose load only the workload's own process knows.

A workload started with HAILO_MONITOR=1 writes a small protobuf file once a second; an older file belongs to a
process that has ended. The Hailo-10H has its scheduler on the chip and writes none.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from fairlead.measure.view import ReaderView
from fairlead.telemetry import Metric, Sample
from fairlead.varint import decode

MONITOR: Final = "/tmp/hmon_files"  # noqa: S108  # HailoRT's fixed path; only read, never written
_MAX_AGE: Final = 5.0
"""Seconds after which a file that is written every second counts as abandoned."""
_FILES: Final = 32
_DEVICE_INFOS, _DEVICE_ID, _UTILIZATION = 4, 1, 2
_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5


def read(view: ReaderView) -> Iterator[Sample]:
    """Read the load from the files of the running workloads."""
    address = view.acc.bus.partition(":")[2].lower()
    shares = [
        share for data in _recent_files(view) for device, share in devices(data) if device.lower() == address
    ]
    if shares:
        yield from view.sample(Metric.BUSY, max(shares))


def _recent_files(view: ReaderView) -> Iterator[bytes]:
    for name in view.host.names(MONITOR)[:_FILES]:
        file = view.host.read_with_mtime(f"{MONITOR}/{name}")
        if file and abs(view.date - file[0]) <= _MAX_AGE:
            yield file[1]


def devices(message: bytes) -> list[tuple[str, float]]:
    """Return each device's id and busy share from a ProtoMon message; a broken one up to its fault."""
    shares = []
    for number, value in _fields(message):
        if number != _DEVICE_INFOS or not isinstance(value, bytes):
            continue
        inner = dict(_fields(value))
        device, percent = inner.get(_DEVICE_ID), inner.get(_UTILIZATION, 0.0)
        if isinstance(device, bytes) and isinstance(percent, float) and 0 <= percent <= 100:
            shares.append((device.decode("utf-8", "replace"), percent / 100))
    return shares


def _fields(message: bytes) -> Iterator[tuple[int, bytes | float]]:
    """Yield the doubles and byte strings of a message, up to a fault in the wire format; skip varints."""
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
