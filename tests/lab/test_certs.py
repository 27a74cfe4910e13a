"""Keys: the lab's own authority signs every certificate, each for one usage."""

import stat
from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead.cluster.config import kubeconfig
from fairlead.compat.times import UTC
from fairlead.lab.control import certs


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    leaves = [certs.api_server(["10.89.0.1"]), certs.ADMIN, *certs.kubelet("node-1", "10.89.0.1")]
    certs.write_keys(tmp_path / "keys", leaves)
    return tmp_path / "keys"


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_every_leaf_is_signed_by_the_authority(keys: Path) -> None:
    authority = read(keys / "ca.crt")
    for path in keys.glob("*.crt"):
        read(path).verify_directly_issued_by(authority)
        assert read(path).not_valid_before_utc < datetime.now(UTC) < read(path).not_valid_after_utc


def test_subjects_and_usages_are_those_that_kubernetes_requires(keys: Path) -> None:
    node = read(keys / "kubelet-node-1.crt")
    assert node.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:node-1"
    assert node.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:nodes"
    usage = node.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    api = read(keys / "apiserver.crt")
    assert list(api.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    names = api.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    assert addresses == ["127.0.0.1", "10.96.0.1", "10.89.0.1"]


def test_only_the_owner_can_read_the_keys(keys: Path) -> None:
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys.iterdir()} == {0o600}


def test_two_labs_share_no_key(keys: Path, tmp_path: Path) -> None:
    certs.write_keys(tmp_path / "other", [])
    mine, other = (read(folder / "ca.crt").public_key() for folder in (keys, tmp_path / "other"))
    assert isinstance(mine, ec.EllipticCurvePublicKey)
    assert mine != other


def test_the_kubeconfig_has_its_keys_inline(keys: Path, tmp_path: Path) -> None:
    text = certs.kubeconfig(keys, "admin", "https://127.0.0.1:20001", "fairlead-lab")
    path = certs.write_private(tmp_path / "kubeconfig", text)
    for key in keys.iterdir():
        key.unlink()
    config = kubeconfig.load(str(path))
    assert config.server == "https://127.0.0.1:20001"
    assert config.context == "fairlead-lab"
    assert b"BEGIN EC PRIVATE KEY" in config.login.key
