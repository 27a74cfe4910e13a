"""Rate limits: a bucket of requests for each holder of a credential."""

import threading
import time
from collections.abc import Callable
from typing import Final

from fairlead.store.refusal import RefusedError

_BURST: Final = 2.0
"""Seconds of requests that may come at once."""
_HOLDERS: Final = 1024


class RateLimit:
    """Refuses requests of a holder beyond a number a second."""

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def check(self, holder: str) -> None:
        """Count a request; RefusedError where it is one too many."""
        if self._rate is None:
            return
        now, most = self._clock(), max(1.0, self._rate * _BURST)
        with self._lock:
            tokens, since = self._buckets.get(holder, (most, now))
            tokens = min(most, tokens + (now - since) * self._rate)
            if len(self._buckets) >= _HOLDERS:
                self._buckets.clear()
            self._buckets[holder] = (tokens - 1 if tokens >= 1 else tokens, now)
        if tokens < 1:
            wait = max(1, round((1 - tokens) / self._rate))
            raise RefusedError(
                429, f"more than {self._rate:g} requests a second", (("Retry-After", str(wait)),)
            )
