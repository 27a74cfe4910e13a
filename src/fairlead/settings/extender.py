"""What can be set for the extender."""

from dataclasses import dataclass

from fairlead.settings import Address, TlsFiles


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """What can be set for the extender."""

    listen: Address
    policy: str = "fairlead"
    tls: TlsFiles | None = None
    client_authority: str = ""
    """Whose certificates clients must show; empty: everybody is answered."""
