"""Two folders as volumes, with files whose content is known."""

import os
from pathlib import Path

from fairlead.tiering.volumes.moves import FileMover
from fairlead.tiering.volumes.pair import VolumePair

OLD = 1_000_000_000
"""A time of change, in seconds: a file that was written this moment is not moved."""


class Volumes:
    """A pair of volumes below a folder."""

    def __init__(self, top: Path) -> None:
        for name in ("fast", "slow"):
            (top / name).mkdir(exist_ok=True)
        self.pair = VolumePair.of(str(top / "fast"), str(top / "slow"))
        self.fast, self.slow = Path(self.pair.fast), Path(self.pair.slow)

    def mover(self, settle: float = 0.0) -> FileMover:
        """Return a mover."""
        return FileMover(self.pair, settle=settle)

    def write(self, key: str, content: bytes, time: float = OLD) -> Path:
        """Write a file as a program does: through the path that it sees."""
        path = self.fast / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (time, time))
        return path

    def on_slow(self, key: str, content: bytes, time: float = OLD) -> Path:
        """Write a file on the slow volume, with its link."""
        path = self.slow / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (time, time))
        link = self.fast / key
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
        return path

    def read(self, key: str) -> bytes:
        """Return a file as a program reads it."""
        return (self.fast / key).read_bytes()

    def left_over(self) -> list[str]:
        """Return what moves have left in the mover's own folders."""
        found = []
        for top in (self.fast, self.slow):
            for folder, _, names in os.walk(top / ".fairlead" / "tier"):
                found += [os.path.join(folder, name) for name in names]
        return found
