"""The certificates of a host: three files, read again whenever they have changed."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from fairlead.errors import SettingsError


@dataclass(frozen=True, slots=True)
class HostTlsFiles:
    """Where the certificates are, in PEM."""

    ca: str
    """The authority that signs the certificates of every host."""
    cert: str
    key: str

    def read(self) -> "TlsTexts":
        """Return what the files hold now; SettingsError where one cannot be used."""
        texts = []
        for path in (self.ca, self.cert, self.key):
            try:
                with open(path, "rb") as file:
                    texts.append(file.read())
            except OSError as error:
                raise SettingsError(
                    f"{path}: cannot be read: {error.strerror}",
                    "make them with fairlead pipeline certificates",
                ) from None
            if b"-----BEGIN " not in texts[-1]:
                raise SettingsError(f"{path}: not a PEM file", "name a file that begins with -----BEGIN")
        return TlsTexts(*texts)


@dataclass(frozen=True, slots=True)
class TlsTexts:
    """The content of the files."""

    ca: bytes
    cert: bytes
    key: bytes


class ReloadedTls:
    """The files of a server: what they held last, while a change cannot be used."""

    def __init__(self, files: HostTlsFiles, log: Callable[[str], None]) -> None:
        self._files = files
        self._log = log
        self._stamp = file_stamp(files)
        self.texts = files.read()

    def changed(self) -> TlsTexts | None:
        """Return the new content after a change; None: nothing has changed."""
        stamp = file_stamp(self._files)
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        try:
            texts = self._files.read()
        except SettingsError as error:
            self._log(f"{error}: the last certificates stay in use")
            return None
        if texts == self.texts:
            return None
        self.texts = texts
        return texts


def file_stamp(files: HostTlsFiles) -> tuple[tuple[int, int, int] | None, ...]:
    """Return what differs once one of the files has changed."""
    stamps: list[tuple[int, int, int] | None] = []
    for path in (files.ca, files.cert, files.key):
        try:
            facts = os.stat(path)
            stamps.append((facts.st_ino, facts.st_mtime_ns, facts.st_size))
        except OSError:
            stamps.append(None)
    return tuple(stamps)


def require_private(address: str, tls: HostTlsFiles | None, *, insecure: bool, everywhere: bool) -> None:
    """Refuse an address without certificates, unless that was asked for, and on the loopback alone."""
    host = address.rpartition(":")[0].strip("[]")
    if tls is not None or everywhere:
        return
    if not insecure:
        hint = "make them with fairlead pipeline certificates, or state --insecure on the loopback"
        raise SettingsError("--ca, --cert and --key are missing: any peer could run code here", hint)
    if host not in ("localhost", "::1") and not host.startswith("127."):
        hint = "use certificates; --insecure-network serves without them on any address"
        raise SettingsError(f"--insecure with {address}: any host of the network could run code here", hint)
