"""The status of a running tier: a file on either volume that others read."""

import json
import os
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.errors import SettingsError
from fairlead.outfile import atomic_write
from fairlead.tiering.volumes.pair import STATE

_NAME: Final = "status.json"
_RECENT: Final = 20


@dataclass(slots=True)
class TierCounts:
    """What a tier has done since its start."""

    accesses: int = 0
    hits: int = 0
    promoted: int = 0
    demoted: int = 0
    copied: int = 0
    """Bytes."""
    dropped: int = 0
    orphans: int = 0
    recent: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """The last moves."""

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON."""
        return {
            "accesses": self.accesses,
            "hits": self.hits,
            "moves": {
                "promoted": self.promoted,
                "demoted": self.demoted,
                "copied_bytes": self.copied,
                "given_up": self.dropped,
            },
            "orphans_removed": self.orphans,
            "recent": list(self.recent),
        }


def write_status(folder: str, document: dict[str, Any]) -> None:
    """Write the status of a tier into the folder of its own files."""
    with atomic_write(f"{folder}/{_NAME}", text=True) as file:
        json.dump(document, file)


def read_status(folder: str) -> dict[str, Any]:
    """Return the last status of the tier of a folder, the fast or the slow one."""
    path = os.path.join(folder, STATE, _NAME)
    try:
        with open(path, encoding="utf-8") as file:
            document: dict[str, Any] = json.load(file)
            return document
    except FileNotFoundError:
        raise SettingsError(
            f"{folder}: no tier", "name the fast folder of fairlead serve tier, which writes the status"
        ) from None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}", "is fairlead serve tier running?") from None
