"""Pages of `fairlead pipeline run` and `worker`: metrics, and what probes of a cluster ask."""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.terminal import show_error
from fairlead.errors import SettingsError, UserError

if TYPE_CHECKING:
    from fairlead.pipeline.hosts.server import HostServer
    from fairlead.serve.web.httpd import Pages, Response

_LOOPBACK: Final = "127.0.0.1"
_STALE: Final = 30.0
"""Seconds without a status after which a run hangs: it has one four times a second."""


def serve_pages(stack: ExitStack, option: str, text: str, pages: "Pages", what: str) -> None:
    """Serve pages as long as the stack is open; SettingsError where the address cannot be used."""
    from fairlead.serve.web.thread import serve_in_thread
    from fairlead.settings import parse_address

    address = f"{_LOOPBACK}:{text}" if text.isdecimal() else text
    try:
        where = stack.enter_context(serve_in_thread(parse_address(address), pages))
    except UserError as error:
        reason = str(error).removeprefix("listen: ")
        raise SettingsError(
            f"{option} {text}: {reason}", "write a port, or an address such as 127.0.0.1:19811"
        ) from None
    show_error(f"fairlead: {what} on http://{where}{'/metrics' if what == 'metrics' else '/healthz'}")


class RunPages:
    """The pages of a run: `/metrics`, `/status`, `/healthz` and `/readyz`."""

    def __init__(
        self, latest: Callable[[], Mapping[str, Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._latest = latest
        self._clock = clock
        self._updated = clock()

    def on_status(self) -> None:
        """Take note of a new status."""
        self._updated = self._clock()

    def __call__(self, path: str) -> "Response":
        """Return the page of a path."""
        from fairlead.metrics.exposition import CONTENT_TYPE
        from fairlead.metrics.pipeline_page import render_pipeline
        from fairlead.serve.web.httpd import Response

        if path == "/metrics":
            return Response(200, render_pipeline(self._latest()), CONTENT_TYPE)
        if path == "/status":
            return self._status()
        if path == "/healthz":
            age = self._clock() - self._updated
            return _answer(age < _STALE, f"the run has had no status for {age:.0f} s")
        if path == "/readyz":
            return _answer(bool(self._latest().get("open")), "not every stage is open")
        return Response(404, b"no such path; the paths are /metrics, /status, /healthz and /readyz\n")

    def _status(self) -> "Response":
        from fairlead.pipeline.observe.histogram import without_buckets
        from fairlead.serve.web.httpd import Response

        if not (latest := self._latest()):
            return _answer(False, "the run has no status yet")
        return Response(200, json.dumps(without_buckets(latest)).encode(), "application/json")


def worker_pages(server: "HostServer") -> "Pages":
    """Return the pages of a host: `/healthz` and `/readyz`."""
    from fairlead.serve.web.httpd import Response

    def page(path: str) -> Response:
        if path == "/healthz":
            return _answer(server.has_free_stream(), "every stream of this host is in use")
        if path == "/readyz":
            return _answer(server.is_serving, "this host takes no runs")
        return Response(404, b"no such path; the paths are /healthz and /readyz\n")

    return page


def _answer(good: bool, reason: str) -> "Response":
    from fairlead.serve.web.httpd import Response

    return Response(200, b"ok\n") if good else Response(503, f"{reason}\n".encode())
