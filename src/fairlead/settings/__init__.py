"""What can be set for the programs that keep running, checked before they start: here, what they share."""

import os
import re
from dataclasses import dataclass
from typing import Final

from fairlead.errors import SettingsError

LISTEN: Final = "127.0.0.1:19809"
"""Loopback, because the page asks for no login; a port outside 9100 to 9999, where each has its exporter."""
_LOOPBACK: Final = re.compile(r"localhost|::1|127(?:\.[0-9]{1,3}){3}")
_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^\[\]:]*)):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    """A name or an address; empty means every interface."""
    port: int
    """0 lets the kernel choose."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can come here."""
        return _LOOPBACK.fullmatch(self.host) is not None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where a certificate and its key are; both are read again when they change."""

    cert: str
    """PEM: the certificate, then those between it and its authority."""
    key: str
    """PEM, without a password."""


def parse_address(text: str) -> Address:
    """Read where to listen: `127.0.0.1:19809`, `[::1]:19809`, `:19809` for every interface."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise SettingsError(
            f"listen: {text!r} is not an address", f"write it like {LISTEN}, [::1]:19809 or :19809"
        )
    port = int(found["port"])
    if port > 65535:
        raise SettingsError(
            f"listen: there is no port {port}", "choose one from 1 to 65535, or 0 for any free one"
        )
    return Address(found["six"] or found["name"] or "", port)


def tls_files(cert: str, key: str) -> TlsFiles | None:
    """Return what to serve TLS with; None where it is not asked for."""
    if bool(cert) != bool(key):
        given, missing = ("tls-cert", "tls-key") if cert else ("tls-key", "tls-cert")
        raise SettingsError(f"{given} is set and {missing} is not", "TLS needs both: set the other one too")
    if not cert:
        return None
    return TlsFiles(readable("tls-cert", cert), readable("tls-key", key))


def readable(name: str, path: str) -> str:
    """Return the path of a file that can be read now; what it holds is looked at by whoever uses it."""
    try:
        with open(path, "rb") as file:
            file.read(1)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else str(error)) or "unknown"
        raise SettingsError(
            f"{name}: {path!r} cannot be read: {why.lower()}",
            f"name a file that user {os.getuid()} may read; in a pod, mount the secret there",
        ) from None
    return path
