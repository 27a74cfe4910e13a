"""Paths of requests: decoded once, and refused where they could mean two things."""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from fairlead.store.refusal import RefusedError

RESERVED: Final = ".fairlead"
"""The store's own folder in its root, and the path below which the join protocol is served."""
_DEPTH: Final = 128
_LENGTH: Final = 4000
_ENCODED: Final = re.compile(r"%(?:2f|5c|00)", re.IGNORECASE)


def path_of(uri: str) -> str:
    """Return the decoded path of a request's URI, with the slash at its end that it has.

    Dot segments are refused instead of resolved: no client sends them unless told to.
    """
    if uri == "*":
        return uri
    raw = uri.partition("?")[0]
    if _ENCODED.search(raw):
        raise RefusedError(400, "a name in this path holds a slash, a backslash or a zero byte")
    try:
        decoded = unquote_to_bytes(raw.encode("latin-1")).decode("utf-8")
    except UnicodeError:
        raise RefusedError(400, "this path is not UTF-8") from None
    return checked(decoded)


def checked(path: str) -> str:
    """Return a decoded path without empty segments; RefusedError where it is none of the store's."""
    parts = [part for part in path.split("/") if part]
    if not path.startswith("/") or any(part in (".", "..") or "\0" in part for part in parts):
        raise RefusedError(400, "this path has dot segments, or does not begin at the root")
    if len(parts) > _DEPTH or len(path.encode("utf-8", "replace")) > _LENGTH:
        raise RefusedError(414, f"this path is deeper than {_DEPTH} folders, or longer than {_LENGTH} bytes")
    return "/" + "/".join(parts) + ("/" if parts and path.endswith("/") else "")


def is_reserved(path: str) -> bool:
    """Return whether a path is the store's own folder, or below it."""
    return path.split("/")[1] == RESERVED if path.startswith("/") else False
