"""A small store for tests of the device: files in memory, conditions, ranges, checksums, faults on demand."""

import hashlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fairlead.device.digests import parse_repr_digest, repr_digest
from fairlead.invite import TokenRefusal, parse_key
from fairlead.store.join.protocol import JoinProtocol, StoreUse
from fairlead.store.join.registry import DeviceRegistry

TOKEN = "secret"
KEY = parse_key("the key of a session of tests")
Answer = Callable[["Handler"], bool]
"""Handles a request instead of the store; False: the store handles it after all."""


@dataclass
class FakeStore:
    """What the store holds, and what was asked of it."""

    files: dict[str, bytes] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    requests: list[tuple[str, str]] = field(default_factory=list)
    faults: list[Answer] = field(default_factory=list)
    """The next requests, one fault each; `None`-like entries are functions that return False."""
    protocol: JoinProtocol | None = None
    """What answers devices that join."""
    registry: DeviceRegistry | None = None
    digests: bool = True
    """Whether the store states checksums."""
    parts: dict[str, bytes] = field(default_factory=dict)
    """What has arrived of uploads that go on after a cut."""
    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    url: str = ""
    fingerprint: str = ""

    def etag(self, path: str) -> str:
        """Return the entity tag of a file."""
        return f'"{hashlib.sha256(self.files[path]).hexdigest()[:16]}"'


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    store: FakeStore

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the base class
        """Print nothing."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send a reply."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def read_body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def handle_request(self) -> None:
        """Handle a request."""
        store = self.store
        self.key = unquote(self.path).strip("/")
        store.requests.append((self.command, self.key))
        if store.faults and store.faults.pop(0)(self):
            return
        if store.protocol is not None and self.key.startswith(".fairlead/"):
            self.on_join(store.protocol)
            return
        if not self.is_authorized():
            self.close_connection = True
            self.answer(401, b"the credential has expired")
            return
        getattr(self, f"on_{self.command.lower()}")()

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Return the handler of a method."""
        if name.startswith("do_"):
            return self.handle_request
        raise AttributeError(name)

    def secret(self) -> str:
        """Return the bearer token of the request."""
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def is_authorized(self) -> bool:
        """Return whether the store accepts the request's credential."""
        registry = self.store.registry
        if registry is not None and not isinstance(
            registry.authenticate(self.secret(), time.time()), TokenRefusal
        ):
            return True
        return self.secret() in self.store.tokens

    def on_join(self, protocol: JoinProtocol) -> None:
        """Answer below the reserved path."""
        path = self.key.removeprefix(".fairlead/")
        reply = protocol.handle(self.command, path, self.secret(), BytesContent(self.read_body()))
        if reply.refusal:
            self.answer(reply.status, reply.refusal.encode())
        else:
            text = json.dumps(reply.document).encode() if reply.probe is None else bytes(reply.probe)
            self.answer(reply.status, text)

    def on_propfind(self) -> None:
        """List everything."""
        self.read_body()
        files = self.store.files
        sizes = {path: f"<getcontentlength>{len(files[path])}</getcontentlength>" for path in files}
        properties = {"": "<resourcetype><collection/></resourcetype>", **sizes}
        rows = [
            f"<response><href>/{path}</href><propstat><prop>{each}</prop></propstat></response>"
            for path, each in properties.items()
        ]
        body = f'<multistatus xmlns="DAV:">{"".join(rows)}</multistatus>'
        self.answer(207, body.encode())

    def on_put(self) -> None:
        """Store a file."""
        body, files, key = self.read_body(), self.store.files, self.key
        folder = key.rpartition("/")[0]
        if folder and folder not in self.store.folders:
            self.answer(409)
            return
        wanted, none = self.headers.get("If-Match"), self.headers.get("If-None-Match")
        if (wanted and (key not in files or self.store.etag(key) != wanted)) or (none and key in files):
            self.answer(412)
            return
        if part := self.headers.get("Content-Range"):
            whole = self.whole_of(part, body)
            if whole is None:
                return
            body = whole
        stated = parse_repr_digest(self.headers.get("Repr-Digest", ""))
        if stated is not None and stated != hashlib.sha256(body).hexdigest():
            self.answer(400, b"the checksum differs")
            return
        files[key] = body
        self.answer(201, ETag=self.store.etag(key))

    def whole_of(self, part: str, body: bytes) -> bytes | None:
        """Return the whole file with this part; None: it is not complete, which was answered."""
        place, _, total = part.removeprefix("bytes ").partition("/")
        arrived = self.store.parts.get(self.key, b"")
        if place != "*" and int(place.partition("-")[0]) != len(arrived):
            self.answer(409, Upload_Offset=str(len(arrived)))
            return None
        arrived += body
        if len(arrived) < int(total):
            self.store.parts[self.key] = arrived
            self.answer(202, Upload_Offset=str(len(arrived)))
            return None
        self.store.parts.pop(self.key, None)
        return arrived

    def on_get(self) -> None:
        """Send a file, or a range of it."""
        content = self.store.files.get(self.key)
        if content is None:
            self.answer(404)
            return
        if self.headers.get("If-None-Match"):
            self.answer(304)
            return
        headers = {"ETag": self.store.etag(self.key)}
        if self.store.digests:
            headers["Repr-Digest"] = repr_digest(hashlib.sha256(content).hexdigest())
        if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            self.answer(412)
            return
        if found := self.headers.get("Range"):
            start = int(found.removeprefix("bytes=").partition("-")[0])
            if start >= len(content):
                self.answer(416, b"", **headers)
                return
            headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.answer(206, content[start:], **headers)
            return
        self.answer(200, content, **headers)

    on_head = on_get

    def on_mkcol(self) -> None:
        """Make a folder."""
        there = self.key in self.store.folders
        self.store.folders.add(self.key)
        self.answer(405 if there else 201)


@dataclass
class BytesContent:
    """The body of a request that was read."""

    data: bytes = b""

    def read(self, most: int) -> bytes:
        """Return it."""
        return self.data

    def drop(self, most: int) -> int:
        """Return its length."""
        return len(self.data)


def joinable(folder: Path, **options: Any) -> FakeStore:
    """Return a store that devices can join."""
    registry = DeviceRegistry(str(folder), print)
    store = FakeStore(registry=registry, **options)
    store.protocol = JoinProtocol(
        registry, lambda: KEY, lambda: StoreUse(sum(map(len, store.files.values())), 1 << 30), "shop"
    )
    return store


def disconnect_after(size: int) -> Answer:
    """Return a fault: the connection ends after so many bytes of the body."""

    def fault(handler: Handler) -> bool:
        handler.rfile.read(min(size, int(handler.headers.get("Content-Length", "0"))))
        handler.close_connection = True
        return True

    return fault


def keep_part(size: int) -> Answer:
    """Return a fault: the connection ends after so many bytes of a part, which the store keeps."""

    def fault(handler: Handler) -> bool:
        handler.store.parts[handler.key] = handler.store.parts.get(handler.key, b"") + handler.rfile.read(
            size
        )
        handler.close_connection = True
        return True

    return fault


def lose_reply(handler: Handler) -> bool:
    """Do what is asked, and end the connection without a reply."""
    real, handler.wfile = handler.wfile, _Nowhere()  # type: ignore[assignment]
    getattr(handler, f"on_{handler.command.lower()}")()
    handler.wfile = real
    handler.close_connection = True
    return True


class _Nowhere:
    def write(self, data: bytes) -> int:
        return len(data)

    def flush(self) -> None:
        pass


def answering(status: int, body: bytes = b"", **headers: str) -> Answer:
    """Return a fault: this reply."""

    def fault(handler: Handler) -> bool:
        handler.read_body()
        handler.answer(status, body, **headers)
        return True

    return fault


def cut_reply(size: int) -> Answer:
    """Return a fault: the content of a file ends after so many bytes."""

    def fault(handler: Handler) -> bool:
        content = handler.store.files[handler.key]
        handler.send_response(200)
        handler.send_header("ETag", handler.store.etag(handler.key))
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[:size])
        handler.close_connection = True
        return True

    return fault


def usual(handler: Handler) -> bool:
    """Let the store answer."""
    return False


@contextmanager
def serving(store: FakeStore, certificate: tuple[Path, Path] | None = None) -> Iterator[FakeStore]:
    """Serve a store on a free port of loopback."""
    handler = type("BoundHandler", (Handler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    store.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def certificate(folder: Path, name: str) -> tuple[tuple[Path, Path], str]:
    """Return a certificate with its key as files, and its fingerprint."""
    from fairlead.authority import CertificateAuthority, LeafCertificate  # noqa: PLC0415  # devices have none

    authority = CertificateAuthority.new("tests", timedelta(days=1))
    cert, key = authority.issue(LeafCertificate(name, name, hosts=("127.0.0.1",)), timedelta(days=1))
    files = folder / f"{name}.crt", folder / f"{name}.key"
    for path, data in zip(files, (cert, key), strict=True):
        path.write_bytes(data)
    der = ssl.PEM_cert_to_DER_cert(cert.decode())
    return files, hashlib.sha256(der).hexdigest()
