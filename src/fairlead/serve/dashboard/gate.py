"""RequestGate: checks the Host and the Origin of every request, and adds the security headers.

A browser sends the name in the address bar as Host: a foreign name that resolves to this server (DNS
rebinding) is refused. A page of another origin is refused by its Origin, or by Sec-Fetch-Site where a browser
sends that alone.
"""

import re
from collections.abc import Collection, MutableMapping
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead.serve.dashboard.faults import ApiFault

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Final = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Paths of a kubelet's probes: it names the pod's address as Host, and the answer is only yes or no."""
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")


class RequestGate:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """Let requests through to `app` that name one of `hosts`, which are in lower case, without a port."""
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message)
            await send(message)

        fault = self._fault(scope)
        app = self._app if fault is None else fault.response()
        await app(scope, receive, send_secured)

    def _fault(self, scope: Scope) -> ApiFault | None:
        headers, path = Headers(scope=scope), scope["path"]
        if path in _PROBES:
            return None
        hosts = headers.getlist("host")
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if match is None or match[1].lower() not in self._hosts:
            name = hosts[0][:80] if hosts else "no name"
            hint = "use the address that the program printed, or add the name with --host"
            return ApiFault(421, f"this server is not {name}", "Host", hint)
        origins = headers.getlist("origin")
        if origins and not _is_same(origins, hosts[0]):
            return ApiFault(
                403, "pages of another origin get no answer", "Origin", "open the server's own page"
            )
        if headers.get("sec-fetch-site", "none") in ("cross-site", "same-site") and path.startswith("/api/"):
            return ApiFault(
                403, "pages of another site get no answer", "Sec-Fetch-Site", "open the server's own page"
            )
        return None


def _is_same(origins: list[str], host: str) -> bool:
    scheme, _, name = origins[0].partition("://")
    return len(origins) == 1 and scheme in ("http", "https") and name.lower() == host.lower()


def _add_headers(message: MutableMapping[str, Any]) -> None:
    headers = list(message.get("headers", ()))
    present = {name for name, _ in headers}
    if b"cache-control" not in present:
        headers.append((b"cache-control", b"no-store"))
    message["headers"] = [*headers, *(item for item in SECURITY_HEADERS if item[0] not in present)]
