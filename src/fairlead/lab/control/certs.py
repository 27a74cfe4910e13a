"""A lab's own keys: one certificate authority, and a certificate for every client and server."""

import base64
import ipaddress
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Final

from fairlead.authority import (
    CertificateAuthority,
    LeafCertificate,
    new_key,
    private_pem,
    public_pem,
    write_key_file,
)

LIFE: Final = timedelta(days=365)
SERVICES: Final = "10.96.0.0/16"
"""The range of Service addresses; the API server's own Service has the first address."""
_API_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


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
    authority = CertificateAuthority.new("fairlead-lab", LIFE)
    accounts = new_key()
    write_key_file(folder / "ca.crt", authority.certificate_pem)
    write_key_file(folder / "ca.key", authority.key_pem)
    write_key_file(folder / "sa.key", private_pem(accounts))
    write_key_file(folder / "sa.pub", public_pem(accounts))
    for leaf in leaves:
        certificate, key = authority.issue(leaf, LIFE)
        write_key_file(folder / f"{leaf.name}.crt", certificate)
        write_key_file(folder / f"{leaf.name}.key", key)


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
    write_key_file(path, text.encode())
    return path
