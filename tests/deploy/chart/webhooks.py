"""The chart's webhook inside a test: its shipped parts, called by a real API server over loopback."""

import asyncio
import base64
import copy
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.serialization import Encoding

from fairlead.authority import CertificateAuthority, LeafCertificate
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import ClusterConfig
from fairlead.serve.admission.program import PATH, router_of
from fairlead.serve.admission.webhook import Webhook
from fairlead.serve.web.router import open_server
from fairlead.serve.web.tls import context
from fairlead.settings import TlsFiles
from fairlead.settings.admission import Rules
from tests.deploy.chart.charts import Document

LIFE = timedelta(days=1)
CONFIGURATION = "ValidatingWebhookConfiguration"


@contextmanager
def serve_webhook(config: ClusterConfig, rules: Rules) -> Iterator[tuple[str, str]]:
    """Serve admission reviews in a thread; yield the URL, and the CA bundle in base64."""
    authority = CertificateAuthority.new("webhook", LIFE)
    certificate, key = authority.issue(LeafCertificate("webhook", "webhook", hosts=("127.0.0.1",)), LIFE)
    listener = socket.create_server(("127.0.0.1", 0))
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    with TemporaryDirectory() as folder:
        cert, secret = Path(folder, "tls.crt"), Path(folder, "tls.key")
        cert.write_bytes(certificate)
        secret.write_bytes(key)
        tls = context(TlsFiles(str(cert), str(secret)))

        async def serve() -> None:
            async with (
                Client.connect(config) as client,
                open_server(listener, router_of(Webhook(client, rules, print)), tls),
            ):
                await stop.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        try:
            trusted = base64.b64encode(authority.certificate.public_bytes(Encoding.PEM)).decode()
            yield f"https://127.0.0.1:{listener.getsockname()[1]}{PATH}", trusted
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(30)
            loop.close()


def configuration(documents: list[Document], namespace: str, url: str, trusted: str) -> Document:
    """Return the shipped configuration with another URL, for two namespaces."""
    (shipped,) = [document for document in documents if document["kind"] == CONFIGURATION]
    document = copy.deepcopy(shipped)
    document["metadata"]["name"] += f"-{namespace}"
    (webhook,) = document["webhooks"]
    webhook["clientConfig"] = {"url": url, "caBundle": trusted}
    here = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace, "kube-system"]}
    webhook["namespaceSelector"] = {"matchExpressions": [here]}
    return document
