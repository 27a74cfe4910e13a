"""Nodes of a live cluster as rows. Pure."""

from collections.abc import Iterable
from typing import Final, Literal

from fairlead.annotations import AnnotatedAccelerator, parse_devices
from fairlead.cache.use_index import AGENT_LABELS
from fairlead.dashboard.row_types import NodeRow
from fairlead.dashboard.rows import node_row
from fairlead.keys import DEVICES
from fairlead.manifest.types.kubernetes import Node
from fairlead.manifest.types.live import LivePod
from fairlead.placement import NodeState

_READY: Final = "Ready"
AgentState = Literal["ok", "missing", "old", "unknown"]


def live_node_row(node: Node, state: NodeState | None, problem: str, pods: Iterable[LivePod]) -> NodeRow:
    """Return the row of a node; `state` is None, and `problem` says why, where it cannot be read."""
    ready, why = _readiness(node)
    agent, gone = agent_state(node, pods)
    known = state or NodeState(node.metadata.name, labels=node.metadata.labels)
    reasons = [reason for reason in (why, problem, gone) if reason]
    shown: Literal["ready", "not-ready", "cordoned"] = "ready" if ready else "not-ready"
    if ready and node.spec.unschedulable:
        shown = "cordoned"
    return node_row(known, state=shown, reason="; ".join(reasons), agent=agent)


def _readiness(node: Node) -> tuple[bool, str]:
    for condition in node.status.conditions:
        if condition.type == _READY:
            return condition.status == "True", "" if condition.status == "True" else condition.message
    return True, ""


def agent_state(node: Node, pods: Iterable[LivePod]) -> tuple[AgentState, str]:
    """Return the state of a node's agent, and what that means for what is shown of the node."""
    text = node.metadata.annotations.get(DEVICES, "")
    agents = [pod for pod in pods if AGENT_LABELS.items() <= pod.metadata.labels.items() and not pod.ended]
    if text and parse_devices(text) is None:
        return "old", "the list of its accelerators is of another version: update its agent"
    if any(pod.condition(_READY).status == "True" for pod in agents):
        return "ok", ""
    if agents:
        return "missing", "its agent is not ready: its accelerators are as last reported"
    return (
        ("missing", "its agent is gone: its accelerators are as last reported") if text else ("unknown", "")
    )


def unhealthy_reasons(node: Node) -> dict[str, str]:
    """Return why accelerators are not healthy, by their ids."""
    listed: Iterable[AnnotatedAccelerator] = parse_devices(node.metadata.annotations.get(DEVICES, "")) or ()
    return {device.id: device.reason for device in listed if device.reason}
