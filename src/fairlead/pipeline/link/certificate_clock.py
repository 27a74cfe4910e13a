"""Until when the certificate of a host is valid.

Python's ssl reads the times of peers and authorities only, and the images of pipelines have no library for
certificates: the few fields before the end are read here.
"""

import re
import ssl
from datetime import datetime
from typing import Final

from fairlead.compat.times import UTC
from fairlead.errors import SettingsError
from fairlead.pipeline.link.tls import HostTlsFiles, file_stamp

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""By tag: UTCTime, whose years are 1950 to 2049, and GeneralizedTime."""
_BEFORE_VALIDITY: Final = 3
"""Serial number, algorithm and issuer."""


class CertificateClock:
    """The end of a certificate, which is read again whenever its files change."""

    def __init__(self, files: HostTlsFiles) -> None:
        self._files = files
        self._stamp: object = None
        self._ends: float | None = None

    def ends(self) -> float | None:
        """Return the end, in seconds of Unix time; None: the certificate cannot be read."""
        stamp = file_stamp(self._files)
        if stamp != self._stamp:
            self._stamp, self._ends = stamp, self._read()
        return self._ends

    def _read(self) -> float | None:
        try:
            return certificate_end(self._files.read().cert).timestamp()
        except (SettingsError, ValueError):
            return None


def certificate_end(pem: bytes) -> datetime:
    """Return until when the first certificate of a text is valid; ValueError where there is none."""
    found = _CERTIFICATE.search(pem)
    if found is None:
        raise ValueError("no certificate")
    body, _ = _enter(ssl.PEM_cert_to_DER_cert(found[0].decode("ascii")), _SEQUENCE)
    rest, _ = _enter(body, _SEQUENCE)
    if rest[:1] == bytes([_VERSION]):
        rest = _element(rest)[2]
    for _ in range(_BEFORE_VALIDITY):
        rest = _element(rest)[2]
    validity, _ = _enter(rest, _SEQUENCE)
    tag, text, _ = _element(_element(validity)[2])
    if tag not in _FORMATS:
        raise ValueError(f"tag {tag} is none of a time")
    return datetime.strptime(text.decode("ascii"), _FORMATS[tag]).replace(tzinfo=UTC)


def _enter(data: bytes, wanted: int) -> tuple[bytes, bytes]:
    """Return the content of the first element and what is behind it; ValueError for another tag."""
    tag, content, rest = _element(data)
    if tag != wanted:
        raise ValueError(f"tag {tag} in place of {wanted}")
    return content, rest


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Return tag and content of the first element of DER, and what is behind it."""
    if len(data) < 2:
        raise ValueError("the certificate is cut off")
    start, length = 2, data[1]
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    if start + length > len(data):
        raise ValueError("the certificate is cut off")
    return data[0], data[start : start + length], data[start + length :]
