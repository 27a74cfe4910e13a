"""What can be set for the admission webhook."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairlead.settings import Address, TlsFiles


@dataclass(frozen=True, slots=True)
class Rules:
    """Which account may bind which pods, and whose pods it may never evict."""

    account: str
    """The user name of the scheduler's service account: all others are let through."""
    scheduler: str = "fairlead"
    """The `schedulerName` of the pods that it may bind, and make room for."""
    protected: Sequence[str] = ("kube-system",)
    """Namespaces whose pods are never evicted."""


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """What can be set for the webhook."""

    listen: Address
    tls: TlsFiles
    """API servers ask over TLS alone."""
    rules: Rules
