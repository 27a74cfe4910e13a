"""How `fairlead pipeline worker` serves."""

from dataclasses import dataclass
from typing import Final

from fairlead.pipeline.link.gateway import PATIENCE
from fairlead.pipeline.link.tls import HostTlsFiles

GRACE: Final = 10.0


@dataclass(frozen=True, slots=True)
class HostSettings:
    """How a host serves."""

    listen: str
    tls: HostTlsFiles | None
    folder: str
    """Where modules and relative paths are looked for."""
    grace: float = GRACE
    """Seconds that a coordinator may be away before its run ends."""
    patience: float = PATIENCE
    """Seconds that a stream of a link waits for its run, and then for its link."""
