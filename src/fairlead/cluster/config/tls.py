"""Make the TLS side of a connection from what a kubeconfig holds."""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.cluster.config.types import ClusterConfig
from fairlead.errors import KubeconfigError


def create_context(config: ClusterConfig, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return how to verify the server, and what to show it."""
    try:
        made = ssl.create_default_context(cadata=config.ca.decode("ascii") if config.ca else None)
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(
            f"{config.display_name}: the certificate authority is not a PEM certificate: {error}",
            hint="correct certificate-authority(-data) of the cluster",
        ) from None
    # Many clusters' own authorities lack what stricter checks ask for, and kubectl takes them.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if config.insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if certificate:
        _show(made, config, certificate, key)
    return made


def _show(made: ssl.SSLContext, config: ClusterConfig, certificate: bytes, key: bytes) -> None:
    try:
        with _file(certificate.rstrip() + b"\n" + key) as path:
            made.load_cert_chain(path, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(
            f"{config.display_name}: the client certificate and key of user {config.user!r} cannot be used: "
            f"{error}",
            hint="they must be PEM, belong together, and have no password",
        ) from None


def _no_password() -> str:
    """Answer for the terminal, where OpenSSL would otherwise ask and wait."""
    return ""


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Give a path to some bytes: Python loads keys from files only, and keys should not touch the disk."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        handle = os.memfd_create("fairlead", os.MFD_CLOEXEC)
        try:
            os.write(handle, content)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
    else:
        with tempfile.NamedTemporaryFile(prefix="fairlead-") as file:  # only its owner can read it
            file.write(content)
            file.flush()
            yield file.name
