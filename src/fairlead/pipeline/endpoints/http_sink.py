"""A sink that posts each value to an HTTP server."""

import base64
import http.client
import os
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

import numpy as np

from fairlead.pipeline.endpoints import options as rules
from fairlead.pipeline.endpoints.backoff import delay
from fairlead.pipeline.endpoints.codec.encode import QUALITY
from fairlead.pipeline.endpoints.encoded import FORMATS, check_format, encode
from fairlead.pipeline.endpoints.urls import without_password
from fairlead.pipeline.frame import FrameHeader
from fairlead.units import parse_duration

Options = Mapping[str, Any]
Position = tuple[int, int]
RETRIES: Final = 5
TIMEOUT: Final = "10s"
_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed."""
_MOST_ANSWER: Final = 1 << 16
RULES: Final = {
    "url": rules.HTTP_URL,
    "format": rules.one_of(*FORMATS),
    "quality": rules.QUALITY,
    "timeout": rules.DURATION,
    "retries": rules.INDEX,
    "ca": rules.CERTIFICATES,
    "headers": rules.HEADERS,
    "key_prefix": rules.KEY,
}


class HttpSink:
    """Posts values, one at a time, over one connection that is kept; repeats what failed on the way."""

    def __init__(self, options: Options, folder: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._shown = without_password(options["url"])
        self._parts = urlsplit(options["url"])
        self._format = options.get("format")
        self._quality = options.get("quality", QUALITY)
        self._timeout = parse_duration(options.get("timeout", TIMEOUT))
        self._retries: int = options.get("retries", RETRIES)
        self._headers = {"User-Agent": "fairlead", **_login(self._parts), **options.get("headers", {})}
        self._prefix = options.get("key_prefix", "")
        self._context = _context(options, folder)
        self._sleep = sleep
        self._connection: http.client.HTTPConnection | None = None

    def positions(self) -> dict[int, Position]:
        """Return nothing: the server knows what it has, by the keys of the requests."""
        return {}

    def write(self, header: FrameHeader, value: Any, count: int = 1) -> None:
        """Post one value; ConnectionError once the server has not taken it after the last attempt."""
        form = self._format or ("npy" if isinstance(value, np.ndarray) else "json")
        body = encode(header, value, form, self._quality)
        key = f"{self._prefix}{header.stream}-{header.sequence}" + (f"-{count}" if count > 1 else "")
        headers = {**self._headers, "Content-Type": FORMATS[form], "Idempotency-Key": key}
        for attempt in range(1, self._retries + 2):
            fault, again = self._post(body, headers)
            if not fault:
                return
            if not again or attempt > self._retries:
                times = f" after {attempt} attempts" if attempt > 1 else ""
                raise ConnectionError(f"POST {self._shown}: {fault}{times}")
            self._sleep(delay(attempt))

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _post(self, body: bytes, headers: Mapping[str, str]) -> tuple[str, bool]:
        """Return what went wrong, and whether to try again; empty: the server has taken it."""
        if self._connection is None:
            self._connection = self._connect()
        path = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        try:
            self._connection.request("POST", path, body, dict(headers))
            with self._connection.getresponse() as response:
                status, words = response.status, response.reason
                if len(response.read(_MOST_ANSWER)) == _MOST_ANSWER or response.will_close:
                    self.close()
        except ssl.SSLCertVerificationError as error:
            self.close()
            return (
                f"its certificate is not trusted: {error.verify_message}; name its authority with ca",
                False,
            )
        except TimeoutError:
            self.close()
            return f"no answer within {self._timeout:g} s", True
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return " ".join(
                f"{getattr(error, 'strerror', None) or error or type(error).__name__}".split()
            ), True
        if 200 <= status < 300:
            return "", False
        return f"the server answered {status} {words}".rstrip(), status in _AGAIN

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)


def check_http(options: Options, folder: str) -> None:
    """Raise where the options name what cannot be used; connects to nothing."""
    check_format(options.get("format", "json"), "sink http")
    _context(options, folder)


def _context(options: Options, folder: str) -> ssl.SSLContext:
    """Return how servers are verified: always, by the system's authorities or by those of a file."""
    authorities = os.path.join(folder, options["ca"]) if "ca" in options else None
    try:
        return ssl.create_default_context(cafile=authorities)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"{authorities} holds no certificates: {error.strerror or error}") from None


def _login(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
