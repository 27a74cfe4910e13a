"""TierLooks: looks at all files from time to time, and puts right what no notice said."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fairlead.errors import SettingsError
from fairlead.tiering.program.opening import is_whole
from fairlead.tiering.program.placement import TierPlacement
from fairlead.tiering.program.scan import TierFiles, follow_rename, look, remove_orphan
from fairlead.tiering.program.status import TierCounts
from fairlead.tiering.volumes.pair import VolumePair

_SOON: Final = 2.0
"""Seconds after a name went: a rename is over then, and a folder that is deleted, too."""


class TierLooks:
    """Compares the files with what the placement knows."""

    def __init__(
        self, pair: VolumePair, placement: TierPlacement, counts: TierCounts, log: Callable[[str], None]
    ) -> None:
        self._pair = pair
        self._placement = placement
        self._counts = counts
        self._log = log
        self._due: float | None = None
        self._orphans = frozenset[str]()
        self._broken = frozenset[str]()
        self.slow_files = 0

    def soon(self) -> None:
        """Look in a moment."""
        self._due = self._due or time.monotonic() + _SOON

    def is_due(self) -> bool:
        """Return whether a look that was asked for is due."""
        return self._due is not None and self._due <= time.monotonic()

    def look(self) -> None:
        """Look at all files now."""
        if not is_whole(self._pair):
            raise SettingsError(
                f"{self._pair.fast} or {self._pair.slow}: its volume is gone", "mount it, and start again"
            )
        self._due = None
        files = look(self._pair)
        for key, target in files.renamed.items():
            try:
                if follow_rename(self._pair, key, target):
                    self._log(f"{key}: renamed from {target}; its slow file follows")
            except OSError:
                self.soon()  # it was renamed again
        self._sweep(files)
        self._tell(files)

    def _sweep(self, files: TierFiles) -> None:
        """Remove orphans that were orphans at the last look, too: a rename may be under way."""
        orphans = frozenset(files.orphans)
        for key in orphans & self._orphans:
            if self._remove(key):
                self._counts.orphans += 1
                self._log(f"{key}: deleted; its slow file is removed")
        self._orphans = orphans - self._orphans
        if self._orphans:
            self.soon()
        for key in frozenset(files.broken) - self._broken:
            self._log(f"{key}: its slow file {self._pair.slow_path(key)} is gone")
        self._broken = frozenset(files.broken)

    def _remove(self, key: str) -> bool:
        with suppress(FileNotFoundError):
            return remove_orphan(self._pair, key)
        return False

    def _tell(self, files: TierFiles) -> None:
        for key in [key for key in self._placement.keys() if key not in files.fast]:  # noqa: SIM118  # no dict
            if key in files.slow:
                self._placement.seen(key, files.slow[key], fast=False)
            else:
                self._placement.gone(key)
        for key, size in files.fast.items():
            self._placement.seen(key, size, fast=True)
        self.slow_files = len(files.slow)
