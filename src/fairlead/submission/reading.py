"""InputReader: lists inputs and reads their digests in a thread, a few hundred ahead."""

import hashlib
import queue
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from fairlead.submission.client import NamedInput
from fairlead.submission.sources import Found, InputFile, UnusableInput

_AHEAD: Final = 512
_BLOCK: Final = 1 << 20
_WAIT: Final = 0.5
"""Seconds after which a thread that waits looks whether it is to end."""


class InputReader:
    """A thread that lists and reads."""

    def __init__(self, found: "Iterable[Found | None]", ended: threading.Event) -> None:
        self._found = found
        self._ended = ended
        self._read: queue.Queue[NamedInput | UnusableInput | None] = queue.Queue(_AHEAD)
        self._is_last = False

    def run(self) -> None:
        """Read until all inputs were taken or the end is asked for."""
        for each in self._found:
            if self._ended.is_set():
                return
            if each is not None:
                self._put(digested(each) if isinstance(each, InputFile) else each)
        self._put(None)

    @property
    def is_exhausted(self) -> bool:
        """Whether every input was taken."""
        return self._is_last

    def take(self, most: int) -> list[NamedInput | UnusableInput]:
        """Return the next inputs; waits a moment for the first one."""
        taken: list[NamedInput | UnusableInput] = []
        with suppress(queue.Empty):
            while len(taken) < most and not self._is_last:
                each = self._read.get_nowait() if taken else self._read.get(timeout=_WAIT)
                if each is None:
                    self._is_last = True
                else:
                    taken.append(each)
        return taken

    def _put(self, each: NamedInput | UnusableInput | None) -> None:
        while not self._ended.is_set():
            with suppress(queue.Full):
                self._read.put(each, timeout=_WAIT)
                return


def digested(found: InputFile) -> NamedInput | UnusableInput:
    """Return an input with the digest of its content."""
    digest, size = hashlib.sha256(), 0
    try:
        with open(found.file, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except OSError as error:
        return UnusableInput(found.path, error.strerror or str(error))
    return NamedInput(found.path, digest.hexdigest(), size)
