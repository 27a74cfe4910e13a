"""A lab's own keys: one certificate authority, and a certificate for every client and server."""

import base64
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead.compat.times import UTC

LIFE: Final = timedelta(days=365)
_SKEW: Final = timedelta(hours=1)
"""Certificates are valid from this long ago: clocks differ."""
SERVICES: Final = "10.96.0.0/16"
"""The range of Service addresses; the API server's own Service has the first address."""
_API_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True, slots=True)
class LeafCertificate:
    """The subject of a certificate, and its usage."""

    name: str
    """The name of its files."""
    common_name: str
    organization: str = ""
    hosts: tuple[str, ...] = ()
    """DNS names and addresses of a server certificate; none: a client certificate."""


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """The certificate authority of a lab."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @staticmethod
    def new() -> "CertificateAuthority":
        """Return an authority with a fresh key, which no other lab shares."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("fairlead-lab", "")
        certificate = (
            _builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        return CertificateAuthority(key, certificate)

    def issue(self, leaf: LeafCertificate) -> tuple[bytes, bytes]:
        """Return the certificate and the key of a leaf, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if leaf.hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = _builder(_name(leaf.common_name, leaf.organization), self.certificate.subject, key)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if leaf.hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in leaf.hosts])
            builder = builder.add_extension(names, critical=False)
        return _pem(builder.sign(self.key, hashes.SHA256())), _private(key)


def api_server(addresses: Iterable[str]) -> LeafCertificate:
    """Return the API server's certificate, for these addresses and the loopback."""
    first = str(next(ipaddress.ip_network(SERVICES).hosts()))
    return LeafCertificate("apiserver", "kube-apiserver", hosts=(*_API_NAMES, "127.0.0.1", first, *addresses))


ADMIN: Final = LeafCertificate("admin", "fairlead-lab-admin", "system:masters")
KUBELET_CLIENT: Final = LeafCertificate("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
CONTROLLERS: Final = LeafCertificate("kube-controller-manager", "system:kube-controller-manager")
SCHEDULER: Final = LeafCertificate("kube-scheduler", "system:kube-scheduler")
PROXY: Final = LeafCertificate("kube-proxy", "system:kube-proxy")


def kubelet(node: str, address: str) -> tuple[LeafCertificate, LeafCertificate]:
    """Return the client and the server certificate of a node's kubelet."""
    user, group = f"system:node:{node}", "system:nodes"
    return (
        LeafCertificate(f"kubelet-{node}", user, group),
        LeafCertificate(f"kubelet-{node}-server", user, group, (node, address)),
    )


def write_keys(folder: Path, leaves: Iterable[LeafCertificate]) -> None:
    """Write the authority, the service account keys and every leaf into a new folder."""
    folder.mkdir(mode=0o700)
    authority = CertificateAuthority.new()
    accounts = ec.generate_private_key(ec.SECP256R1())
    _write(folder / "ca.crt", _pem(authority.certificate))
    _write(folder / "ca.key", _private(authority.key))
    _write(folder / "sa.key", _private(accounts))
    public = accounts.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write(folder / "sa.pub", public)
    for leaf in leaves:
        certificate, key = authority.issue(leaf)
        _write(folder / f"{leaf.name}.crt", certificate)
        _write(folder / f"{leaf.name}.key", key)


def kubeconfig(keys: Path, user: str, server: str, context: str) -> str:
    """Return a kubeconfig with its keys inline; it is plain YAML text, so no serializer is needed."""

    def inline(name: str) -> str:
        return base64.b64encode((keys / name).read_bytes()).decode()

    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: {context}
  cluster:
    server: {server}
    certificate-authority-data: {inline("ca.crt")}
users:
- name: {context}-{user}
  user:
    client-certificate-data: {inline(f"{user}.crt")}
    client-key-data: {inline(f"{user}.key")}
contexts:
- name: {context}
  context:
    cluster: {context}
    user: {context}-{user}
current-context: {context}
"""


def write_private(path: Path, text: str) -> Path:
    """Write a file that holds a key, readable by its owner alone."""
    _write(path, text.encode())
    return path


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + LIFE)
    )


def _name(common_name: str, organization: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
