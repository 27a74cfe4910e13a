"""TLS for the extender: files that are read again when they change, and certificates asked of clients."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from fairlead.errors import SettingsError
from fairlead.serve.web.rotated import Rotated, said
from fairlead.serve.web.tls import context
from fairlead.settings import TlsFiles


@dataclass(frozen=True, slots=True)
class Tls:
    """What connections are made with."""

    context: ssl.SSLContext
    files: Rotated[None]
    """To be looked at now and then: new ones count for connections from then on."""


def prepared(files: TlsFiles, client_authority: str, say: Callable[[str], None]) -> Tls:
    """Return how to speak TLS; with an authority, who shows a certificate must show one of its.

    That one is shown is checked with each request: a kubelet's probes show none.
    """
    try:
        made = context(files)
        # kube-scheduler keeps its connections, and may resume them.
        made.options &= ~ssl.OP_NO_TICKET
        if client_authority:
            made.load_verify_locations(client_authority)
            made.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        named = f"{files.cert}, {files.key}{f', {client_authority}' if client_authority else ''}"
        raise SettingsError(
            f"the TLS files {named} cannot be used: {said(error)}",
            "they must be PEM; the certificate and its key must belong together, and have no password",
        ) from None
    again = Rotated((files.cert, files.key), lambda: made.load_cert_chain(files.cert, files.key), say)
    return Tls(made, again)
