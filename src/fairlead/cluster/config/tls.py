"""Create the TLS context of a connection from a kubeconfig's certificates."""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.cluster.config.types import ClusterConfig
from fairlead.errors import KubeconfigError


def create_context(config: ClusterConfig, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return a context that verifies the server and presents the client certificate."""
    try:
        context = ssl.create_default_context(cadata=config.ca.decode("ascii") if config.ca else None)
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(
            f"{config.display_name}: the certificate authority is not a PEM certificate: {error}",
            hint="correct certificate-authority(-data) of the cluster",
        ) from None
    # Many clusters' own authorities lack extensions that stricter checks require, and kubectl accepts them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        _load_client_certificate(context, config, certificate, key)
    return context


def _load_client_certificate(
    context: ssl.SSLContext, config: ClusterConfig, certificate: bytes, key: bytes
) -> None:
    try:
        with _temporary_file(certificate.rstrip() + b"\n" + key) as path:
            context.load_cert_chain(path, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(
            f"{config.display_name}: the client certificate and key of user {config.user!r} cannot be used: "
            f"{error}",
            hint="they must be PEM, belong together, and have no password",
        ) from None


def _no_password() -> str:
    """Return no password; without this OpenSSL prompts on the terminal and waits."""
    return ""


@contextmanager
def _temporary_file(content: bytes) -> Iterator[str]:
    """Yield a path to some bytes: Python loads keys from files only, and a key should not reach the disk."""
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
