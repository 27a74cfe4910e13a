"""Settings of leader election."""

from dataclasses import dataclass
from typing import Final

LEASE_NAME: Final = "fairlead-scheduler"
OPERATOR_LEASE: Final = "fairlead-operator"


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """The Lease of leader election, and its times."""

    namespace: str = "kube-system"
    name: str = LEASE_NAME
    duration: float = 15.0
    """Seconds without a renewal after which another replica may acquire the Lease."""
    deadline: float = 10.0
    """Seconds after which a leader that cannot renew stops; less than `duration`, for clocks differ."""
    period: float = 2.0
    """Seconds between attempts to acquire or renew."""
