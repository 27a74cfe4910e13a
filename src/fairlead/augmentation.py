"""AugmentationSpec: what a small device asks of a server: storage, an application, accelerator memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.units import Bytes

_NO_ENVIRONMENT: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class StorageRequest:
    """The storage of a session: its quota, and the part of it on the fast tier."""

    size: Bytes
    fast: Bytes | None = None
    """Capacity of the fast tier; without it the session has one tier."""
    classes: tuple[str, ...] = ()
    """Storage classes in a cluster: of the only tier, or of the fast and the slow one."""


@dataclass(frozen=True, slots=True)
class AugmentationSpec:
    """One session: a device and the slice of a server that is lent to it."""

    name: str
    device: str
    image: str = ""
    """The application's image; without one the session has storage alone."""
    command: tuple[str, ...] = ()
    storage: StorageRequest = field(default_factory=lambda: StorageRequest(Bytes(1 << 30)))
    accelerator_memory: Bytes | None = None
    """The application's share of an accelerator, in memory."""
    digest: str | None = None
    """SHA-256 of the application on the device: of its image, or of its command's program."""
    env: Mapping[str, str] = field(default_factory=lambda: _NO_ENVIRONMENT)
