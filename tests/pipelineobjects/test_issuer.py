"""Certificates of Pipelines: two hosts of one trust each other, and those of two do not."""

from pathlib import Path

import pytest

pytest.importorskip("hpack")

from fairlead.ownedobjects.certificates import CertifiedKey, HostNames
from fairlead.ownedobjects.issuer import AuthorityIssuer
from fairlead.pipeline.link.tls import HostTlsFiles
from tests.pipeline.hosts import ask, host

x509 = pytest.importorskip("cryptography.x509")

CHAIN = """
pipeline: spread
hosts: {{a: {{address: "127.0.0.1:{port}"}}}}
stages:
  - {{name: camera, source: numbers, options: {{count: 3}}, on: a}}
  - {{name: log, sink: 'null'}}
"""
URI = "spiffe://cluster.local/ns/shop/pipeline/count/host/edge"


def written(folder: Path, authority: CertifiedKey, name: str) -> HostTlsFiles:
    """Return the files of a host with a certificate of an authority."""
    made = AuthorityIssuer().leaf(authority, HostNames(name, ("127.0.0.1", f"{name}.svc"), URI))
    for suffix, data in (("crt", made.certificate), ("key", made.key), ("ca", authority.certificate)):
        (folder / f"{name}.{suffix}").write_bytes(data)
    return HostTlsFiles(*(str(folder / f"{name}.{suffix}") for suffix in ("ca", "crt", "key")))


def test_a_certificate_has_the_names_of_its_host(tmp_path: Path) -> None:
    files = written(tmp_path, AuthorityIssuer().authority("pipeline count"), "edge")
    certificate = x509.load_pem_x509_certificate(Path(files.cert).read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == [URI]
    assert names.get_values_for_type(x509.DNSName) == ["edge.svc"]
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert life.total_seconds() == 25 * 3600  # 24 hours, and one before for clocks that differ


def test_hosts_of_one_pipeline_trust_each_other_and_no_others(tmp_path: Path) -> None:
    ours, theirs = AuthorityIssuer().authority("pipeline a"), AuthorityIssuer().authority("pipeline b")
    with host(tmp_path, written(tmp_path, ours, "edge")) as server:
        text = CHAIN.format(port=server.port)
        assert ask(text, tmp_path, written(tmp_path, ours, "local")).problems == ()
        refused = ask(text, tmp_path, written(tmp_path, theirs, "stranger"))
    assert refused.unreached == ("a",)
