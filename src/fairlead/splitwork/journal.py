"""ResultJournal: what a worker has finished and not handed in; a killed process leaves it to the next.

It is written before a result counts as finished, and emptied when nothing of it is left. It is not synced: a
power cut costs the work of some inputs, and no result.
"""

import base64
import binascii
import errno
import json
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from fairlead.outfile import atomic_write
from fairlead.splitwork.task import FinishedInput, InputFailure, LeasedInput

_LONG: Final = 8 << 20
"""Bytes."""


class ResultJournal:
    """A file with a line for each finished input."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  # open as long as the worker works

    def load(self) -> list[FinishedInput]:
        """Return what an earlier process has finished; the end of the last line may be missing."""
        found: dict[int, FinishedInput] = {}
        with open(self._path, "rb") as file:
            for line in file:
                with suppress(ValueError, KeyError, TypeError, binascii.Error):
                    finished = _finished(json.loads(line))
                    found[finished.lease.input] = finished
        return [each for each in found.values() if not each.file or os.path.exists(each.file)]

    def add(self, finished: FinishedInput) -> None:
        """Keep an input that was finished; OSError where the disk is full."""
        line = f"{json.dumps(_document(finished))}\n".encode()
        with self._lock:
            written = self._file.write(line)
        if written != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def clear(self) -> None:
        """Forget all: it was handed in."""
        with self._lock:
            if os.fstat(self._file.fileno()).st_size:
                self._file.truncate(0)

    def shorten(self, left: Callable[[], Iterable[FinishedInput]]) -> None:
        """Forget what was handed in, once the file has become long."""
        with self._lock:
            if os.fstat(self._file.fileno()).st_size < _LONG:
                return
            lines = b"".join(f"{json.dumps(_document(each))}\n".encode() for each in left())
            with atomic_write(self._path) as file:
                file.write(lines)
            self._file.close()
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115  # as above

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _document(finished: FinishedInput) -> dict[str, Any]:
    document = {
        "lease": asdict(finished.lease),
        "seconds": finished.seconds,
        "interval": finished.interval,
        "digest": finished.digest,
        "size": finished.size,
        "file": finished.file,
    }
    if finished.data is not None:
        document["data"] = base64.b64encode(finished.data).decode()
    if finished.failure is not None:
        document["failure"] = asdict(finished.failure)
    return document


def _finished(document: dict[str, Any]) -> FinishedInput:
    data, failure = document.get("data"), document.get("failure")
    return FinishedInput(
        LeasedInput(**document["lease"]),
        document["seconds"],
        document["interval"],
        document["digest"],
        document["size"],
        None if data is None else base64.b64decode(data, validate=True),
        document["file"],
        "",
        None if failure is None else InputFailure(**failure),
    )
