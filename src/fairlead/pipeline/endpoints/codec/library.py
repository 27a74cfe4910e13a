"""PyAV itself, which is optional, and its errors in words."""

import os
from typing import Any, Final

from fairlead.errors import MissingPartError

EXTRA: Final = "pipeline-video"
MOST_THREADS: Final = 4
"""Of one decoder: more of them gain little, and each holds a frame."""


def pyav(purpose: str) -> Any:
    """Return PyAV; MissingPartError with the extra that brings it."""
    try:
        import av  # noqa: PLC0415 - a pipeline without video needs none
    except ImportError:
        raise MissingPartError(
            f"{purpose} needs PyAV, which is not installed", f"pip install 'fairlead[{EXTRA}]'"
        ) from None
    return av


def reason(error: Exception) -> str:
    """Return why a call of PyAV failed, without the name of the file, which may hold a password."""
    text = getattr(error, "strerror", None) or str(error)
    return " ".join(str(text).split()).rstrip(".") or type(error).__name__


def threads() -> int:
    """Return how many threads a decoder uses: the cores of this process, at most `MOST_THREADS`."""
    return min(MOST_THREADS, len(os.sched_getaffinity(0)))
