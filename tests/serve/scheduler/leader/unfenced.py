"""Writes without the conditions that make a late write fail: to show what fencing is for."""

import json
from typing import Any

from fairlead.cache.types import LEADER_EPOCH

Request = tuple[str, str, bytes | None]
"""A method, a path, and a body."""


def unfenced(method: str, path: str, body: bytes | None) -> Request:
    """Return a write without its version; a write that only fences becomes a read."""
    document: dict[str, Any] = json.loads(body or b"{}")
    if method not in ("POST", "PATCH"):
        return method, path, body
    if _only_fences(document):
        return "GET", path.removesuffix("/status"), None
    document.get("metadata", {}).pop("resourceVersion", None)
    return method, path, json.dumps(document).encode()


def _only_fences(document: dict[str, Any]) -> bool:
    marks = document.get("metadata", {}).get("annotations", {})
    conditions = document.get("status", {}).get("conditions", [])
    claim = LEADER_EPOCH in marks and set(document["metadata"]) == {"annotations"}
    return claim or any(condition["type"] == LEADER_EPOCH for condition in conditions)
