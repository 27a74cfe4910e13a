"""What moves where, and why, as people read it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fairlead.ownedobjects.pod_state import PodState
from fairlead.pipelineobjects.resource import HostGroup, PipelineResource
from fairlead.pipelineobjects.sequence import Place
from fairlead.pipelineobjects.update.surge import HostMove
from fairlead.reconcile import Manifest

_KEYS: Final = {
    "node_selector": "nodeSelector",
    "device_class": "class",
    "tolerations": "tolerations",
    "resources": "resources",
    "accelerator": "accelerator",
    "data_claim": "dataClaim",
    "tls_secret": "tlsSecret",
}
"""Fields of a host, as the resource names them."""


def describe_moves(
    before: PipelineResource | None,
    after: PipelineResource,
    moves: Sequence[HostMove],
    pods: Mapping[Place, Manifest],
    stages: Sequence[str] = (),
) -> str:
    """Return what moves where, and why: `detect moves from pi-3 to server-1: image changed`."""
    texts = [*_placed_elsewhere(before, after)]
    texts += [_describe(before, after, move, pods) for move in moves if move.is_moving]
    if not texts and stages:
        texts = [f"{', '.join(stages)}: the spec of the stage changed"]
    return "; ".join(texts) or "the file changes"


def _placed_elsewhere(before: PipelineResource | None, after: PipelineResource) -> Iterator[str]:
    known = {stage.name: stage.on for stage in before.spec.stages} if before else {}
    for stage in after.spec.stages:
        if known.get(stage.name, stage.on) != stage.on:
            yield f"{stage.name} moves from {known[stage.name]} to {stage.on}: its host changed"


def _describe(
    before: PipelineResource | None,
    after: PipelineResource,
    move: HostMove,
    pods: Mapping[Place, Manifest],
) -> str:
    stages = ", ".join(stage.name for stage in after.spec.stages if stage.on == move.host) or move.host
    old, new = (_where(pods, (move.host, slot)) for slot in (move.slot, move.next))
    way = f"from {old} to {new}" if old != new else f"to another pod on {new}"
    return f"{stages} moves {way}: {_why(before, after, move)}"


def _where(pods: Mapping[Place, Manifest], place: Place) -> str:
    """Return the node of a pod, or its slot where it has none."""
    node = (pods.get(place, {}).get("spec") or {}).get("nodeName")
    return str(node) if node else f"{place[0]}-{place[1]}"


def _why(before: PipelineResource | None, after: PipelineResource, move: HostMove) -> str:
    if move.state is PodState.LOST:
        return "its node is lost"
    if move.state is None or move.state is PodState.ENDING:
        return "its pod is deleted"
    changed = [*_changes(before, after, move.host)] if before is not None else []
    return f"{', '.join(changed)} changed" if changed else "its pod changed"


def _changes(before: PipelineResource, after: PipelineResource, host: str) -> Iterator[str]:
    for key in ("image", "files", "pull_policy", "scheduler"):
        if getattr(before, key) != getattr(after, key):
            yield {"pull_policy": "imagePullPolicy", "scheduler": "schedulerName"}.get(key, key)
    groups: list[HostGroup] = [
        group for resource in (before, after) for group in resource.hosts if group.name == host
    ]
    if len(groups) == 2:
        yield from (name for key, name in _KEYS.items() if getattr(groups[0], key) != getattr(groups[1], key))
