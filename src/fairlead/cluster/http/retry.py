"""When to ask again, and after how long. Pure: the dice and the clock are the caller's."""

from dataclasses import dataclass
from random import Random
from typing import Final

_FIRST: Final = 0.1
_LONGEST: Final = 30.0
_BREAKS: Final = 3


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to ask, and how long to wait in all, before passing on the server's no."""

    tries: int = 6
    total: float = 30.0
    """Seconds."""


@dataclass(frozen=True, slots=True)
class RetryState:
    """How often we have asked, and how long we have waited between."""

    times: int = 1
    waited: float = 0.0


def delay_after_response(
    code: int, retry_after: float | None, tried: RetryState, patience: RetryPolicy, dice: Random
) -> float | None:
    """Return how long to wait before asking again; None where that is not for us to do.

    429 was turned away before anything was done, and 503 with a Retry-After says so: both may be sent
    again, even a write.
    """
    if tried.times >= patience.tries or (code != 429 and (code != 503 or retry_after is None)):
        return None
    asked = 1.0 if retry_after is None else retry_after
    # Never less than asked; spread, so that those who were turned away together do not come back together.
    pause = max(asked, backoff(tried.times, dice)) * dice.uniform(1.0, 1.5)
    return pause if tried.waited + pause <= patience.total else None


def delay_after_disconnect(method: str, tried: RetryState, dice: Random) -> float | None:
    """Return how long to wait after a connection broke under a request; None to give up."""
    if method != "GET" or tried.times >= _BREAKS:
        return None
    return backoff(tried.times, dice)


def backoff(times: int, dice: Random) -> float:
    """Return a wait that doubles with every try, up to half a minute, spread by half."""
    return min(_FIRST * 2.0 ** max(0, min(times - 1, 16)), _LONGEST) * dice.uniform(0.5, 1.0)


def parse_retry_after(header: str | None) -> float | None:
    """Read a Retry-After; the API server sends whole seconds, never a date."""
    return float(header) if header and header.isascii() and header.isdigit() else None
