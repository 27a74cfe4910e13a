"""Settings of the scheduler."""

from dataclasses import dataclass, field
from typing import Final

from fairlead.need import DEFAULT_BOUND
from fairlead.settings.leader import LeaderElectionConfig

FOOTPRINTS_NAME: Final = "fairlead-footprints"
"""The ConfigMap, beside the Lease, that keeps the learned sizes of workloads."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """All settings of one replica."""

    me: str
    """The identity of this replica in leader election."""
    name: str = "fairlead"
    """Pods with this `schedulerName` are ours."""
    policy: str = "fairlead"
    in_flight: int = 32
    """Requests to the API server at once."""
    own_claims: bool = True
    """Allocate devices by claims of our own; else by the binding's annotation alone."""
    answer_within: float = 10.0
    """Seconds without an answer after which a request is abandoned, and its outcome read back."""
    initial_backoff: float = 0.5
    max_backoff: float = 30.0
    """Seconds before a pod whose placement could not be written is scheduled again; they double."""
    usage: bool = False
    """Whether measured use is read."""
    usage_period: float = 15.0
    """Seconds between two reads of measured use."""
    oom_bound: float = DEFAULT_BOUND
    """The probability, for one placement, that the pods of an accelerator need more memory than it has."""
    lease: LeaderElectionConfig = field(default_factory=LeaderElectionConfig)
