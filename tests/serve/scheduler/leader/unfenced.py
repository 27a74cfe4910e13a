"""Writes without what keeps a late one from being carried out: to show what that is for."""

import json
from typing import Any

from fairlead.cache.types import LEADER_EPOCH

Asked = tuple[str, str, bytes | None]
"""A method, a path, and a body."""


def unfenced(method: str, path: str, body: bytes | None) -> Asked:
    """Return a write that asks for no version; one that is there to change it alone is only a look."""
    document: dict[str, Any] = json.loads(body or b"{}")
    if method not in ("POST", "PATCH"):
        return method, path, body
    if _touches(document):
        return "GET", path.removesuffix("/status"), None
    document.get("metadata", {}).pop("resourceVersion", None)
    return method, path, json.dumps(document).encode()


def _touches(document: dict[str, Any]) -> bool:
    marks = document.get("metadata", {}).get("annotations", {})
    conditions = document.get("status", {}).get("conditions", [])
    claim = LEADER_EPOCH in marks and set(document["metadata"]) == {"annotations"}
    return claim or any(condition["type"] == LEADER_EPOCH for condition in conditions)
