"""Settings of the scheduler extender."""

from dataclasses import dataclass

from fairlead.settings import Address, TlsFiles


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """All settings of the extender."""

    listen: Address
    policy: str = "fairlead"
    tls: TlsFiles | None = None
    client_authority: str = ""
    """The CA file of client certificates; empty: no client certificate is required."""
