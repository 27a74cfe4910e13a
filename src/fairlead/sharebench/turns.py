"""Turns: engines that serve in short blocks, one at a time, so that a slow moment of the machine meets all.

Two named pipes for each engine: a byte in `.go` begins its block, and a byte in `.done` ends it.
"""

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Final

BLOCK: Final = 50
"""Queries of one turn."""


class EngineTurns:
    """The side of an engine."""

    def __init__(self, path: str) -> None:
        # Read and write: opening one end alone would wait for the other process.
        self._go, self._done = (os.open(path + end, os.O_RDWR | os.O_CLOEXEC) for end in (".go", ".done"))

    def before(self, number: int) -> None:
        """Wait for the turn, if a query is the first of its block."""
        if number % BLOCK == 0:
            os.read(self._go, 1)

    def after(self, number: int) -> None:
        """Give the turn back, if a query is the last of its block."""
        if number % BLOCK == BLOCK - 1:
            os.write(self._done, b"x")


class TurnTable:
    """The side that says whose turn it is."""

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        self._folder = folder
        for name in names:
            for end in (".go", ".done"):
                os.mkfifo(self.path(name) + end, 0o600)

    @classmethod
    @contextmanager
    def open(cls, names: Sequence[str]) -> "Iterator[TurnTable]":
        """Make the pipes of these engines, and remove them at the end."""
        with TemporaryDirectory(prefix="fairlead-turns-") as folder:
            yield cls(folder, names)

    def path(self, name: str) -> str:
        """Return what an engine gets as `--turns`."""
        return os.path.join(self._folder, name)

    def take(self, name: str, seconds: float) -> bool:
        """Let an engine serve one block; False: it has not ended after this time."""
        go, done = (os.open(self.path(name) + end, os.O_RDWR | os.O_CLOEXEC) for end in (".go", ".done"))
        try:
            os.write(go, b"x")
            return bool(select.select([done], [], [], seconds)[0]) and bool(os.read(done, 1))
        finally:
            os.close(go)
            os.close(done)


def block_rates(latencies: Sequence[float]) -> list[float]:
    """Return the queries in a second of serving, for each whole block."""
    whole = len(latencies) - len(latencies) % BLOCK
    return [BLOCK / sum(latencies[start : start + BLOCK]) for start in range(0, whole, BLOCK)]
