"""What is set for the program that moves files between two volumes."""

from dataclasses import dataclass, field

from fairlead.tiering.speeds import TierSpeeds
from fairlead.tiering.volumes.moves import SETTLE
from fairlead.units import Bytes

AUTO = "auto"
"""Choose the policy by the volume's own trace."""


@dataclass(frozen=True, slots=True)
class TierSettings:
    """Two folders, the room on the fast one, and when what is done."""

    fast: str
    slow: str
    capacity: Bytes
    policy: str = AUTO
    speeds: TierSpeeds = field(default_factory=TierSpeeds)
    store_trace: str = ""
    """The trace of a store that serves the fast folder."""
    choose_every: float = 600.0
    look_every: float = 600.0
    """Seconds between two looks at all files."""
    most_accesses: int = 200_000
    """Of the recorded trace."""
    settle: float = SETTLE
