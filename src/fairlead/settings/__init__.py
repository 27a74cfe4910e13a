"""Settings of the long-running programs, checked before they start: here, the settings they share."""

import os
import re
from dataclasses import dataclass
from typing import Final

from fairlead.errors import SettingsError

LISTEN: Final = "127.0.0.1:19809"
"""Loopback, because the page has no authentication; a port outside 9100 to 9999, the range of exporters."""
_LOOPBACK: Final = re.compile(r"localhost|::1|127(?:\.[0-9]{1,3}){3}")
_ADDRESS: Final = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^\[\]:]*)):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on."""

    host: str
    """A name or an address; empty means every interface."""
    port: int
    """0 lets the kernel choose."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        return _LOOPBACK.fullmatch(self.host) is not None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a certificate and its key; both are read again when they change."""

    cert: str
    """PEM: the certificate, then the intermediate certificates up to its authority."""
    key: str
    """PEM, without a password."""


def parse_address(text: str) -> Address:
    """Parse an address to listen on: `127.0.0.1:19809`, `[::1]:19809`, `:19809` for every interface."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise SettingsError(
            f"listen: {text!r} is not an address", f"write it like {LISTEN}, [::1]:19809 or :19809"
        )
    port = int(match["port"])
    if port > 65535:
        raise SettingsError(
            f"listen: there is no port {port}", "choose one from 1 to 65535, or 0 for any free one"
        )
    return Address(match["six"] or match["name"] or "", port)


def tls_files(cert: str, key: str) -> TlsFiles | None:
    """Return the files to serve TLS with; None where TLS is not configured."""
    if bool(cert) != bool(key):
        present, missing = ("tls-cert", "tls-key") if cert else ("tls-key", "tls-cert")
        raise SettingsError(f"{present} is set and {missing} is not", "TLS needs both: set the other one too")
    if not cert:
        return None
    return TlsFiles(readable("tls-cert", cert), readable("tls-key", key))


def readable(name: str, path: str) -> str:
    """Return the path of a file that can be read now; its user checks the content."""
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
