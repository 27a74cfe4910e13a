"""Until when a certificate is valid, beside what the library says that made it."""

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fairlead.authority import CertificateAuthority, LeafCertificate
from fairlead.compat.times import UTC
from fairlead.pipeline.link.certificate_clock import CertificateClock, certificate_end
from fairlead.pipeline.link.tls import HostTlsFiles
from tests.pipeline.hosts import certificates

LEAF = LeafCertificate("edge", "edge", hosts=("edge.example.org",), is_peer=True)


@pytest.mark.parametrize(
    "days", [1, 30, 3650, 12000]
)  # the last is a GeneralizedTime, of the year 2050 or later
def test_the_end_is_that_of_the_certificate(days: int) -> None:
    authority = CertificateAuthority.new("a", timedelta(days=20000))
    pem, _ = authority.issue(LEAF, timedelta(days=days))
    assert abs(certificate_end(pem) - (datetime.now(UTC) + timedelta(days=days))) < timedelta(hours=2)
    assert certificate_end(authority.certificate_pem + pem) == authority.ends


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----",
        b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        b"-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_no_certificate_has_no_end(pem: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        certificate_end(pem)


def test_a_certificate_that_is_cut_off_has_no_end() -> None:
    pem, _ = CertificateAuthority.new("a", timedelta(days=2)).issue(LEAF, timedelta(days=1))
    first, *lines, last = pem.decode().strip().splitlines()
    for number in range(len(lines)):
        cut = "\n".join([first, *lines[:number], last]).encode()
        with pytest.raises(ValueError, match=r"\w"):
            certificate_end(cut)


def test_a_new_certificate_is_read_without_a_restart(tmp_path: Path) -> None:
    files = certificates(tmp_path, "edge")
    clock = CertificateClock(files)
    first = clock.ends()
    assert first is not None
    authority = CertificateAuthority.load(
        (tmp_path / "ca.crt").read_bytes(), (tmp_path / "ca.key").read_bytes()
    )
    pem, _ = authority.issue(LEAF, timedelta(days=9))
    new = tmp_path / "new"
    new.write_bytes(pem)
    os.replace(new, files.cert)
    assert clock.ends() == certificate_end(pem).timestamp() > first
    os.unlink(files.cert)
    assert clock.ends() is None
    assert CertificateClock(HostTlsFiles("", "", "")).ends() is None
