"""A new session's folder: the certificate of its store, its tokens and its quota."""

import hashlib
import secrets
import socket
import ssl
import time
from collections.abc import Sequence
from datetime import timedelta

from fairlead.augment.place import LocalSession, SessionPlace
from fairlead.augmentation import AugmentationSpec
from fairlead.authority import CertificateAuthority, LeafCertificate
from fairlead.errors import SessionError
from fairlead.invite import new_key
from fairlead.settings import Address

_LIFE = timedelta(days=3650)
"""Devices compare the certificate byte for byte: another one means another invite for each."""


def make_session(
    place: SessionPlace, spec: AugmentationSpec, listen: Address, hosts: Sequence[str], slow: str, folder: str
) -> LocalSession:
    """Make the folder of a session, and return the session; its programs do not run yet."""
    place.make()
    names = tuple(dict.fromkeys((*hosts, *([listen.host] if listen.host else ()), "localhost", "127.0.0.1")))
    authority = CertificateAuthority.new(f"fairlead session {place.name}", _LIFE)
    certificate, key = authority.issue(LeafCertificate("store", place.name, hosts=names), _LIFE)
    place.write_text("tls.key", key.decode())
    place.write_text("tls.crt", certificate.decode())
    place.write_text("token", f"{secrets.token_urlsafe(32)}\n")
    place.write_text("invite.key", f"{new_key()}\n")
    place.write_text("quota", f"{spec.storage.size}\n")
    der = ssl.PEM_cert_to_DER_cert(certificate.decode())
    session = LocalSession(
        spec,
        listen.host,
        listen.port or _free_port(listen.host),
        hashlib.sha256(der).hexdigest(),
        slow,
        folder,
        created=time.time(),
    )
    place.write(session)
    return session


def _free_port(host: str) -> int:
    """Return a port that nothing listens on; it is kept with the session, for its devices know it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise SessionError(
                f"listen: {host}: {error.strerror or error}", "name an address of this machine"
            ) from None
        return int(probe.getsockname()[1])
