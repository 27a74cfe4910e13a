"""What a store counts, as a page for Prometheus: requests, bytes, refusals by their reason, room."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.metrics.exposition import CONTENT_TYPE, MetricFamily
from fairlead.serve.web.httpd import Response
from fairlead.store.quota import Usage

_REASONS: Final = {
    400: "malformed",
    401: "credential",
    403: "forbidden",
    404: "missing",
    405: "method",
    409: "conflict",
    412: "condition",
    413: "too-large",
    414: "name",
    423: "locked",
    429: "rate",
    503: "frozen-or-busy",
    507: "no-room",
}
_METHODS: Final = frozenset(
    (
        *("GET", "HEAD", "PUT", "POST", "OPTIONS", "PROPFIND", "PROPPATCH"),
        *("MKCOL", "DELETE", "COPY", "MOVE", "LOCK", "UNLOCK"),
    )
)
_OTHER: Final = "other"


class StoreCounters:
    """The counters since the start; requests of all threads add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._refused: Counter[str] = Counter()
        self._received = self._sent = 0

    def answered(self, method: str, status: int, received: int, sent: int) -> None:
        """Count a request that was answered, and the bytes of both bodies."""
        method = method if method in _METHODS else _OTHER
        with self._lock:
            self._requests[method, str(status)] += 1
            self._received += received
            self._sent += sent
            if status >= 400:
                self._refused[_REASONS.get(status, "failed" if status >= 500 else _OTHER)] += 1

    def families(self) -> Iterator[MetricFamily]:
        """Yield the counters."""
        with self._lock:
            requests, refused = dict(self._requests), dict(self._refused)
            received, sent = self._received, self._sent
        yield _family("requests_total", "counter", "Answered requests.", ("method", "code"), requests)
        yield _family(
            "refused_total", "counter", "Refused requests, by why.", ("reason",),
            {(reason,): count for reason, count in refused.items()},
        )  # fmt: skip
        yield _single("received_bytes_total", "counter", "Bytes of received bodies.", received)
        yield _single("sent_bytes_total", "counter", "Bytes of sent bodies.", sent)


@dataclass(frozen=True, slots=True)
class StorePages:
    """The pages beside the files: `/metrics`."""

    counters: StoreCounters
    usage: Callable[[], Usage]
    connections: Callable[[], int]
    frozen: Callable[[], str | None]
    """Why writes are refused; None: they are not."""

    def __call__(self, path: str) -> Response:
        """Return the response for a path."""
        if path != "/metrics":
            return Response(404, b"no such path; the path is /metrics\n")
        return Response(200, self.render(), CONTENT_TYPE)

    def render(self) -> bytes:
        """Return the metrics page."""
        usage = self.usage()
        families = [
            *self.counters.families(),
            _single("used_bytes", "gauge", "Bytes of all files.", usage.used),
            _single("available_bytes", "gauge", "Bytes that a new file may take.", usage.available),
            *_quota(usage),
            _single("open_connections", "gauge", "Open connections.", self.connections()),
            _single("frozen", "gauge", "1 while writes are refused.", int(self.frozen() is not None)),
        ]
        return "".join(line for family in families for line in family.lines()).encode()


def _quota(usage: Usage) -> Sequence[MetricFamily]:
    if usage.quota is None:
        return ()
    return (_single("quota_bytes", "gauge", "The most bytes that files may take.", usage.quota),)


def _single(name: str, kind: str, text: str, value: int) -> MetricFamily:
    return _family(name, kind, text, (), {(): value})


def _family(
    name: str,
    kind: str,
    text: str,
    labels: Sequence[str],
    values: Mapping[tuple[str, str], int] | Mapping[tuple[str], int] | Mapping[tuple[()], int],
) -> MetricFamily:
    series = {key: float(value) for key, value in sorted(values.items())}
    return MetricFamily(f"fairlead_store_{name}", kind, text, labels, series)
