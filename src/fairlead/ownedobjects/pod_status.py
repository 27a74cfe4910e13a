"""Whether a pod is ready, and why it is not. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.reconcile import Manifest

_HARMLESS: Final = ("ContainerCreating", "PodInitializing")
_SHOWN: Final = 400


@dataclass(frozen=True, slots=True)
class PodReadiness:
    """What an observed pod says of itself."""

    pod: str
    node: str
    is_ready: bool
    message: str
    """Why it is not ready; empty: it is, or it starts."""
    is_stuck: bool = False
    """It does not become ready by itself."""


def readiness_of(pod: Manifest) -> PodReadiness:
    """Return whether a pod is ready."""
    status = pod.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    node = (pod.get("spec") or {}).get("nodeName") or ""
    is_ready = conditions.get("Ready", {}).get("status") == "True"
    message, is_stuck = ("", False) if is_ready else _trouble(status, conditions, node)
    return PodReadiness(pod["metadata"]["name"], node, is_ready, message[:_SHOWN], is_stuck)


def _trouble(status: Manifest, conditions: Mapping[str, Any], node: str) -> tuple[str, bool]:
    """Return why a pod is not ready, and whether it stays so by itself."""
    scheduled = conditions.get("PodScheduled", {})
    if not node and scheduled.get("status") == "False":
        return f"not scheduled: {scheduled.get('message') or scheduled.get('reason')}", True
    for container in status.get("containerStatuses") or ():
        ended = (container.get("lastState") or {}).get("terminated") or {}
        state = container.get("state") or {}
        ended = state.get("terminated") or ended
        waiting = state.get("waiting") or {}
        reason = waiting.get("reason") or ""
        if ended and ended.get("exitCode"):
            lines = str(ended.get("message") or ended.get("reason") or "").strip().splitlines()
            return f"ended with {ended['exitCode']}: {' '.join(lines[-3:])}", True
        if reason and reason not in _HARMLESS:
            return f"{reason}: {waiting.get('message') or ''}".rstrip(": "), True
    return "", False
