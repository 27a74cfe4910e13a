"""TLS contexts from the certificates of a host: mutual, HTTP/2 alone."""

import os
import ssl
from typing import Final

from fairlead.errors import SettingsError
from fairlead.pipeline.link.tls import TlsTexts

ALPN: Final = "h2"


def client_context(texts: TlsTexts) -> ssl.SSLContext:
    """Return what connects: the other side must have a certificate for its address."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, texts)


def server_context(texts: TlsTexts) -> ssl.SSLContext:
    """Return what accepts connections: the other side must have a certificate of the same authority."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, texts)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # sessions are not resumed: each handshake checks the certificate
    return context


def _context(protocol: int, texts: TlsTexts) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([ALPN])
    try:
        context.load_verify_locations(cadata=texts.ca.decode("ascii", "replace"))
        _load_key(context, texts)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise SettingsError(
            f"the certificates of this host cannot be used: {getattr(error, 'reason', None) or error}",
            "make them with fairlead pipeline certificates",
        ) from error
    return context


def _load_key(context: ssl.SSLContext, texts: TlsTexts) -> None:
    """Load certificate and key as they were read together: the files may be replaced one after the other."""
    descriptor = os.memfd_create("fairlead-certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(texts.cert + b"\n" + texts.key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
