"""Settings of the admission webhook."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairlead.settings import Address, TlsFiles


@dataclass(frozen=True, slots=True)
class Rules:
    """The account that the webhook restricts, the pods that it may bind, and those it may never evict."""

    account: str
    """The user name of the scheduler's service account: requests of all others are allowed."""
    scheduler: str = "fairlead"
    """The `schedulerName` of the pods that it may bind, and evict others for."""
    protected: Sequence[str] = ("kube-system",)
    """Namespaces whose pods are never evicted."""
    guard: bool = False
    """Whether it may evict a pod of its own from an accelerator whose memory is nearly full."""


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """All settings of the webhook."""

    listen: Address
    tls: TlsFiles
    """API servers call webhooks over TLS only."""
    rules: Rules
