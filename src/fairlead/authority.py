"""A certificate authority of our own, and certificates that it issues: the door to cryptography."""

import ipaddress
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead.compat.times import UTC

_SKEW: Final = timedelta(hours=1)
"""Certificates are valid from this long ago: clocks differ."""


@dataclass(frozen=True, slots=True)
class LeafCertificate:
    """The subject of a certificate, and its usage."""

    name: str
    """The name of its files."""
    common_name: str
    organization: str = ""
    hosts: tuple[str, ...] = ()
    """DNS names and addresses of a server certificate; none: a client certificate."""
    is_peer: bool = False
    """A server that is a client of other servers as well."""
    uris: tuple[str, ...] = ()
    """Further names, such as `spiffe://cluster.local/ns/shop/pipeline/count/host/edge`."""


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """An authority with its key."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @staticmethod
    def new(common_name: str, life: timedelta) -> "CertificateAuthority":
        """Return an authority with a fresh key."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name, "")
        certificate = (
            _builder(name, name, key, life)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        return CertificateAuthority(key, certificate)

    @staticmethod
    def load(certificate: bytes, key: bytes) -> "CertificateAuthority":
        """Return the authority of two PEM texts; ValueError where they are none."""
        private = serialization.load_pem_private_key(key, None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is none of an elliptic curve")
        return CertificateAuthority(private, x509.load_pem_x509_certificate(certificate))

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as PEM."""
        return private_pem(self.key)

    @property
    def ends(self) -> datetime:
        """Until when it is valid."""
        return self.certificate.not_valid_after_utc

    def issue(self, leaf: LeafCertificate, life: timedelta) -> tuple[bytes, bytes]:
        """Return the certificate and the key of a leaf, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH if leaf.hosts else ExtendedKeyUsageOID.CLIENT_AUTH]
        if leaf.is_peer and leaf.hosts:
            usages.append(ExtendedKeyUsageOID.CLIENT_AUTH)
        builder = _builder(_name(leaf.common_name, leaf.organization), self.certificate.subject, key, life)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        names = [*map(_host, leaf.hosts), *map(x509.UniformResourceIdentifier, leaf.uris)]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), private_pem(key)


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a fresh key."""
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the public half of a key as PEM."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def write_key_file(path: Path, data: bytes) -> None:
    """Write a file that holds a key, readable by its owner alone, as a whole."""
    new = path.with_name(f".{path.name}.new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    new.replace(path)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, life: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _name(common_name: str, organization: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
