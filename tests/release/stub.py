"""An empty API server: it answers every list with an empty one, and records that a request came."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: stub
contexts: [{{name: stub, context: {{cluster: stub, user: stub}}}}]
clusters: [{{name: stub, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: stub, user: {{}}}}]
"""
MADE = "2026-01-01T00:00:00Z"
LIST = {
    "kind": "List",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "1", "creationTimestamp": MADE},
    "items": [],
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer, and record the request."""
        body = b"" if "watch=" in self.path else json.dumps(LIST).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.asked.set()  # type: ignore[attr-defined]  # see Stub

    do_POST = do_PATCH = do_GET  # noqa: N815  # the names that the base class looks for

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Stub(ThreadingHTTPServer):
    """The server; `asked` is set by each request."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked = threading.Event()
        self.kubeconfig = folder / "stub.kubeconfig"
        self.kubeconfig.write_text(KUBECONFIG.format(port=self.server_address[1]))


@contextmanager
def serve_stub(folder: Path) -> Iterator[Stub]:
    """Serve for as long as the block runs."""
    with Stub(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
