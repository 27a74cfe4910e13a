"""Settings of the operator."""

from dataclasses import dataclass, field

from fairlead.settings import Address, TlsFiles
from fairlead.settings.leader import OPERATOR_LEASE, LeaderElectionConfig


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """All settings of one replica."""

    me: str
    """The identity of this replica in leader election."""
    listen: Address = field(default_factory=lambda: Address("127.0.0.1", 0))
    tls: TlsFiles | None = None
    """The TLS files of the pages; None serves plain HTTP."""
    in_flight: int = 32
    """Requests to the API server at once."""
    pipeline_image: str = ""
    """The image of Pipelines that name none; empty: that of this release, as it is built here."""
    store_image: str = ""
    """The image of the stores of Augmentations that name none; empty: likewise."""
    workers: int = 16
    """Passes over resources at once."""
    answer_within: float = 10.0
    """Seconds without an answer after which a request is abandoned."""
    initial_backoff: float = 0.2
    max_backoff: float = 30.0
    """Seconds before a resource whose pass failed is reconciled again; they double."""
    watch_period: float = 5.0
    """Seconds between two passes over every resource because something changed on which all depend."""
    probe_interval: float = 60.0
    """Seconds between checks for kinds that the API server does not serve yet."""
    lease: LeaderElectionConfig = field(default_factory=lambda: LeaderElectionConfig(name=OPERATOR_LEASE))
