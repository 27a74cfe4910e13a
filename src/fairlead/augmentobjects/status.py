"""What the status of an Augmentation says of its pods. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.augmentobjects.pods import PodPlan
from fairlead.augmentobjects.problems import AugmentationCondition
from fairlead.ownedobjects.conditions import ConditionState
from fairlead.ownedobjects.pod_status import PodReadiness, readiness_of
from fairlead.reconcile import Manifest
from fairlead.units import pluralize


def pod_readiness(pods: Mapping[str, Manifest]) -> dict[str, PodReadiness]:
    """Return the readiness of observed pods by their part."""
    return {part: readiness_of(pod) for part, pod in pods.items() if part}


def pods_document(pods: Mapping[str, PodReadiness]) -> list[dict[str, Any]]:
    """Return the entries of the status."""
    return [
        {
            "part": part,
            "pod": pod.pod,
            "ready": pod.is_ready,
            **({"node": pod.node} if pod.node else {}),
            **({"message": pod.message} if pod.message else {}),
        }
        for part, pod in pods.items()
    ]


def ready_state(
    pods: Mapping[str, PodReadiness], wanted: Iterable[str], storage: ConditionState
) -> ConditionState:
    """Return the condition that says whether the session can be used."""
    kind, parts = AugmentationCondition.READY, list(wanted)
    ready = [part for part in parts if part in pods and pods[part].is_ready]
    total = f"{len(ready)} of {pluralize(len(parts), 'pod')} {'is' if len(parts) == 1 else 'are'} ready"
    if len(ready) == len(parts):
        return ConditionState(kind, True, "Running", total)
    if not storage.is_true and storage.is_warning:
        return ConditionState(kind, False, storage.reason, f"{total}; {storage.message}", is_warning=True)
    stuck = [f"{part}: {pods[part].message}" for part in parts if part in pods and pods[part].is_stuck]
    if stuck:
        return ConditionState(kind, False, "PodsNotReady", f"{total}; {'; '.join(stuck)}", is_warning=True)
    return ConditionState(kind, False, "Starting", total)


def progress_state(
    plan: PodPlan, ready: ConditionState, sized: ConditionState, moving: str = ""
) -> ConditionState:
    """Return the condition that says what the controller does; `moving`: what a move of the data does."""
    kind = AugmentationCondition.PROGRESSING
    if moving:
        return ConditionState(kind, True, "Moving", moving)
    if plan.waits:
        return ConditionState(kind, True, "Replacing" if plan.end else "Waiting", plan.waits)
    if not ready.is_true:
        return ConditionState(kind, True, "Waiting", "pods are not ready yet")
    if sized.reason == "Growing":
        return ConditionState(kind, True, "Growing", sized.message)
    return ConditionState(kind, False, "Stable", "nothing is to be done")


def node_addresses(nodes: Iterable[Manifest]) -> dict[str, str]:
    """Return the address of each node as devices reach it: its external one where it has one."""
    found = {}
    for node in nodes:
        listed = (node.get("status") or {}).get("addresses") or ()
        known = {each.get("type"): each.get("address") for each in reversed(listed)}
        address = known.get("ExternalIP") or known.get("InternalIP")
        if address:
            found[node["metadata"]["name"]] = str(address)
    return found
