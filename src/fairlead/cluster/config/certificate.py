"""Read when a certificate expires; Python's own library shows the expiry of a peer's certificate only.

A walk down the DER of RFC 5280: Certificate, TBSCertificate, then version, serial, signature, issuer and
validity, whose second element is the expiry. Pure.
"""

import base64
import re
from datetime import datetime
from typing import Final

from fairlead.compat.times import UTC

_PEM: Final = re.compile(
    rb"-----BEGIN (?:X509 )?CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)-----END (?:X509 )?CERTIFICATE-----"
)
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


def expiry(pem: bytes) -> datetime | None:
    """Return when the first certificate of a PEM file expires; None if there is no readable one."""
    match = _PEM.search(pem)
    if match is None:
        return None
    try:
        return _not_after(base64.b64decode(match[1]))
    except (ValueError, IndexError):
        return None


def _not_after(der: bytes) -> datetime:
    certificate, _ = _element(der, 0, _SEQUENCE)
    tbs, _ = _element(certificate, 0, _SEQUENCE)
    at = _element(tbs, 0, _VERSION)[1] if tbs[0] == _VERSION else 0
    for _ in ("serial", "signature", "issuer"):
        at = _element(tbs, at)[1]
    validity, _ = _element(tbs, at, _SEQUENCE)
    after = _element(validity, 0)[1]
    text = _element(validity, after)[0].decode("ascii")
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}.get(validity[after], "")
    when = datetime.strptime(text, form).replace(tzinfo=UTC)
    # RFC 5280: a year of two digits is 1950 to 2049; Python reads it as 1969 to 2068.
    return when.replace(year=when.year - 100) if form.startswith("%y") and when.year >= 2050 else when


def _element(der: bytes, at: int, tag: int | None = None) -> tuple[bytes, int]:
    """Return the content of the element at an offset, and the offset of the next."""
    if tag is not None and der[at] != tag:
        raise ValueError("not a certificate")
    length, start = der[at + 1], at + 2
    if length & 0x80:
        width = length & 0x7F
        if not 1 <= width <= 4:
            raise ValueError("not a length")
        length, start = int.from_bytes(der[start : start + width], "big"), start + width
    if start + length > len(der):
        raise ValueError("cut short")
    return der[start : start + length], start + length
