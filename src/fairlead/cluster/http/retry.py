"""When to retry a request, and after which delay. Pure: the caller brings the random source and the clock."""

from dataclasses import dataclass
from random import Random
from typing import Final

_FIRST_DELAY: Final = 0.1
_MAX_DELAY: Final = 30.0
_MAX_DISCONNECTS: Final = 3


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How many attempts to make, and how long to wait in total, before raising the server's error."""

    max_attempts: int = 6
    max_wait: float = 30.0
    """Seconds."""


@dataclass(frozen=True, slots=True)
class RetryState:
    """The attempts made so far, and the seconds waited between them."""

    attempts: int = 1
    waited: float = 0.0


def delay_after_response(
    code: int, retry_after: float | None, state: RetryState, policy: RetryPolicy, random: Random
) -> float | None:
    """Return the seconds to wait before the next attempt; None to give up.

    The server refuses a 429 before it executes anything, and a 503 with a Retry-After says the same: both
    requests may be sent again, even a write.
    """
    if state.attempts >= policy.max_attempts or (code != 429 and (code != 503 or retry_after is None)):
        return None
    least = 1.0 if retry_after is None else retry_after
    # Never less than the server asks for; spread, so that clients refused together do not retry together.
    delay = max(least, backoff(state.attempts, random)) * random.uniform(1.0, 1.5)
    return delay if state.waited + delay <= policy.max_wait else None


def delay_after_disconnect(method: str, state: RetryState, random: Random) -> float | None:
    """Return the seconds to wait after a connection broke during a request; None to give up."""
    if method != "GET" or state.attempts >= _MAX_DISCONNECTS:
        return None
    return backoff(state.attempts, random)


def backoff(attempts: int, random: Random) -> float:
    """Return a delay that doubles with every attempt, up to half a minute, spread by half."""
    return min(_FIRST_DELAY * 2.0 ** max(0, min(attempts - 1, 16)), _MAX_DELAY) * random.uniform(0.5, 1.0)


def parse_retry_after(header: str | None) -> float | None:
    """Parse a Retry-After header; the API server sends whole seconds, never a date."""
    return float(header) if header and header.isascii() and header.isdigit() else None
