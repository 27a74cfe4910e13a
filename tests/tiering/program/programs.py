"""`fairlead serve tier` as a process, and a wait for what it does."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fairlead.errors import SettingsError
from fairlead.tiering.program.status import read_status
from tests.tiering.volumes.pairs import Volumes

LONG = 30.0
"""Seconds until a test gives up."""


class Served:
    """A running mover of a pair of volumes."""

    def __init__(self, volumes: Volumes, log: Path, *options: str, capacity: str = "1MB") -> None:
        self.volumes = volumes
        self._log = log
        words = ("--fast", volumes.pair.fast, "--slow", volumes.pair.slow, "--capacity", capacity, *options)
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fairlead", "serve", "tier", *words], stderr=file, env=os.environ
            )
        self.wait(lambda: "moving files" in self.log() or self.process.poll() is not None)

    def log(self) -> str:
        """Return what it has said."""
        return self._log.read_text()

    def wait(self, happened: Callable[[], bool]) -> None:
        """Wait until something is so."""
        end = time.monotonic() + LONG
        while not happened():
            assert time.monotonic() < end, f"it did not happen; {self.log()}"
            time.sleep(0.02)

    def status(self) -> dict[str, int]:
        """Return its last status."""
        return read_status(self.volumes.pair.fast)

    def has_written(self) -> bool:
        """Return whether the status is its own: everything that a start does is done."""
        try:
            return self.status()["pid"] == self.process.pid
        except SettingsError:
            return False

    def stop(self) -> int:
        """Stop it; return its exit code."""
        self.process.terminate()
        return self.process.wait(LONG)

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(LONG)
