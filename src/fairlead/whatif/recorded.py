"""Decide for the pods of a recorded cluster: pending ones as if now, running ones where they were. Pure."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

from fairlead.errors import ManifestError
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import Decision
from fairlead.request import Request
from fairlead.whatif.answer import answer

POLICY: Final = "fairlead"


def decide_recorded(
    snapshot: Snapshot, namespace: str, name: str, where: str, *, detailed: bool = False
) -> list[dict[str, Any]]:
    """Return the decisions for the pods of a name, or without one for all pending pods.

    A pod is decided with its gang, and as if no other pod were pending.
    """
    if not name:
        return _decided(snapshot, snapshot.pending, detailed)
    placed = [each for each in snapshot.placements if _is_meant(each.request, namespace, name)]
    waiting = [each for each in snapshot.pending if _is_meant(each, namespace, name)]
    if not placed and not waiting:
        raise ManifestError(f"{where}: there is no pod {name!r} in it", _hint(snapshot, name))
    running = [Decision(each.request, "", each).to_json() for each in placed]
    return [*running, *(each for request in waiting for each in _with_gang(snapshot, request, detailed))]


def _is_meant(request: Request, namespace: str, name: str) -> bool:
    return request.name == name and namespace in ("", request.namespace)


def _with_gang(snapshot: Snapshot, request: Request, detailed: bool) -> list[dict[str, Any]]:
    """Return the decision for a pod that is placed together with the other members of its gang."""
    members = [
        other
        for other in snapshot.pending
        if other.id == request.id
        or (request.gang is not None and (other.gang, other.namespace) == (request.gang, request.namespace))
    ]
    return [_decided(snapshot, members, detailed)[members.index(request)]]


def _decided(snapshot: Snapshot, requests: Sequence[Request], detailed: bool) -> list[dict[str, Any]]:
    decisions: list[dict[str, Any]] = answer(snapshot, requests, POLICY, detailed=detailed).to_json()[
        "decisions"
    ]
    return decisions


def _hint(snapshot: Snapshot, name: str) -> str:
    requests = [*snapshot.pending, *(each.request for each in snapshot.placements)]
    near = get_close_matches(name, [each.name for each in requests], 3, 0.6)
    waiting = [f"{each.namespace}/{each.name}" for each in snapshot.pending[:3]]
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"pending are {', '.join(waiting)}" if waiting else "no pod is pending in it"
