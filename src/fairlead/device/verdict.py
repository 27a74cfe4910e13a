"""What the reply to an upload means for the queue; pure."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fairlead.compat import StrEnum
from fairlead.device.connection import Reply

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 300.0
_LONGEST_ASKED: Final = 3600.0
"""Seconds: a store may ask for no longer pause."""


class UploadStep(StrEnum):
    """What happens to an upload after a reply."""

    DELIVERED = "delivered"
    COMPARE = "compare"
    """The store has another version than this device knew."""
    MAKE_FOLDERS = "make-folders"
    RETRY = "retry"
    REFUSED = "refused"
    """Not as it is: the user must change something."""
    PAUSE = "pause"
    """The store takes nothing now: no other upload either."""
    STOP = "stop"
    """The credential is refused: nothing can be sent."""


@dataclass(frozen=True, slots=True)
class UploadVerdict:
    """The next step, and why."""

    step: UploadStep
    reason: str = ""
    pause: float | None = None
    """Seconds that the store asks to wait."""


_REASONS: Final = {
    400: "the store rejects the request",
    403: "the store forbids this path",
    404: "the store knows no such path",
    405: "a folder of that name is in the way",
    413: "the file is larger than the store takes",
    414: "the path is too long for the store",
    423: "the file is locked in the store",
    429: "the store asks for a pause",
    431: "the path is too long for the store",
    503: "the store takes no writes now",
    507: "the store's quota is used up",
}
_FIXED: Final = frozenset((400, 403, 404, 405, 413, 414, 415, 431, 501))
"""A repetition changes nothing."""

_BUSY: Final = frozenset((429, 503))

_BUSY_UPLOAD: Final = frozenset(("upload-offset", "retry-after"))
"""The store has another part of this upload, or still waits for one on an earlier connection."""


def judge(reply: Reply) -> UploadVerdict:
    """Return what a reply to a conditional PUT means."""
    if reply.status == 202 or (reply.status == 409 and _BUSY_UPLOAD & reply.headers.keys()):
        return UploadVerdict(UploadStep.RETRY, reply.text or "a part of it has arrived", _asked_pause(reply))
    if reply.is_success:
        return UploadVerdict(UploadStep.DELIVERED)
    if reply.status == 412:
        return UploadVerdict(UploadStep.COMPARE)
    if reply.status == 409:
        return UploadVerdict(UploadStep.MAKE_FOLDERS, "a folder of the path is missing")
    if reply.status == 401:
        return UploadVerdict(UploadStep.STOP, reply.text or "the credential is refused")
    reason = _REASONS.get(reply.status, f"the store answers {reply.status}")
    reason = f"{reason}: {reply.text}" if reply.text else reason
    if reply.status in _FIXED:
        return UploadVerdict(UploadStep.REFUSED, reason)
    return UploadVerdict(
        UploadStep.PAUSE if reply.status in _BUSY else UploadStep.RETRY, reason, _asked_pause(reply)
    )


def _asked_pause(reply: Reply) -> float | None:
    text = reply.headers.get("retry-after", "").strip()
    return min(float(text), _LONGEST_ASKED) if text.isdecimal() and len(text) < 10 else None


def pause_after(tries: int, asked: float | None, chance: Callable[[], float] = random.random) -> float:
    """Return the seconds until the next try: twice as long each time, spread, at least what is asked."""
    longest: float = min(_FIRST_PAUSE * 2 ** min(tries, 20), _LONGEST_PAUSE)
    return max(longest * (0.5 + chance() / 2), asked or 0.0)
