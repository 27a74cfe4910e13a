"""What can be set for the store."""

from dataclasses import dataclass
from typing import Final

from fairlead.settings import Address, TlsFiles
from fairlead.store.http.limits import ServerLimits
from fairlead.units import Bytes

_LIMITS: Final = ServerLimits()


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Files and folders beside the store's own; empty: none."""

    also: tuple[str, ...] = ()
    """Folders to which links in the store may lead, as those of a slow tier."""
    trace: str = ""
    """Each served access is appended here."""
    freeze: str = ""
    """While this file exists, writes are refused with the reason that it holds."""
    quota: str = ""
    """The quota as a text; it is read again when it changes."""
    state: str = ""
    """The folder of what outlives the process beside the files: properties, credentials of devices."""
    invite_key: str = ""
    """The key of invites, for devices that join."""
    session: str = ""
    """The name of the session, for devices that join."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of one store."""

    root: str
    listen: Address
    token_file: str
    tls: TlsFiles | None = None
    client_authority: str = ""
    """Certificates of this authority are credentials as well."""
    quota: Bytes | None = None
    rate: float | None = None
    """Requests a second of one holder; None: no limit."""
    sync: bool = True
    """Whether an upload is on the disk before it is acknowledged."""
    limits: ServerLimits = _LIMITS
    lock_wait: float = 10.0
    """Seconds in which an earlier store of the same folder may end."""
    files: StoreFiles = StoreFiles()
    metrics: Address | None = None
    """Where the metrics are served; None: nowhere."""
