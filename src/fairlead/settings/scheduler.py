"""What can be set for the scheduler."""

from dataclasses import dataclass, field
from typing import Final

LEASE_NAME: Final = "fairlead-scheduler"


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """How the Lease is held."""

    namespace: str = "kube-system"
    name: str = LEASE_NAME
    duration: float = 15.0
    """Seconds without a renewal after which another replica may take it."""
    deadline: float = 10.0
    """Seconds after which a leader that cannot renew stops; less than `duration`, for clocks differ."""
    period: float = 2.0
    """Seconds between looks."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What can be set for one replica."""

    me: str
    """What tells this replica from all others."""
    name: str = "fairlead"
    """Pods with this `schedulerName` are ours."""
    policy: str = "fairlead"
    in_flight: int = 32
    """Requests to the API server at once."""
    own_claims: bool = True
    """Hand over devices by claims of our own; else by the binding's annotation alone."""
    answer_within: float = 10.0
    """Seconds without an answer after which a request is given up, and its outcome read back."""
    initial_backoff: float = 0.5
    max_backoff: float = 30.0
    """Seconds before a place is sought again for a pod whose placing could not be written; they double."""
    lease: LeaderElectionConfig = field(default_factory=LeaderElectionConfig)
