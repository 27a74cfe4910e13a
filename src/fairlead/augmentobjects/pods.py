"""Which pods of an Augmentation are made, left alone or ended. Pure: pods do not change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fairlead.augmentobjects.names import APPLICATION, STORE
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.compat.times import parse_iso
from fairlead.keys import AUGMENTATION_PART
from fairlead.ownedobjects.pod_state import PodState, pod_state
from fairlead.reconcile import Manifest

PLACED_FIRST: Final = timedelta(minutes=2)
"""How long the store waits for an application that needs an accelerator: its node is the store's as well."""


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What becomes of the pods now."""

    objects: tuple[Manifest, ...]
    """Pods that are made, and those that stay."""
    end: tuple[str, ...] = ()
    """Parts whose pods are ended now, for another one."""
    waits: str = ""
    """What is waited for before the next pod is made; empty: nothing."""
    again_at: datetime | None = None


def pods_by_part(pods: Iterable[Manifest]) -> dict[str, Manifest]:
    """Return observed pods by their part."""
    return {(each["metadata"].get("labels") or {}).get(AUGMENTATION_PART, ""): each for each in pods}


def plan_pods(
    resource: AugmentationResource,
    wanted: Mapping[str, Manifest],
    observed: Mapping[str, Manifest],
    *,
    is_located: bool,
    now: datetime,
) -> PodPlan:
    """Return what becomes of the pods; `is_located`: the volumes are on a node already."""
    objects, end, waits = [], [], ""
    due = None if is_located else _place_first(resource, observed.get(APPLICATION), now)
    for part, pod in wanted.items():
        known = observed.get(part)
        state = pod_state(known, pod, now) if known is not None else None
        if state in (None, PodState.CURRENT):
            if part == STORE and state is None and due is not None:
                waits = "the application gets its node first: the store follows it there"
                continue
            objects.append(pod)
        elif state in (PodState.OUTDATED, PodState.ENDED):
            end.append(part)
            waits = waits or f"the pod of the {part} ends; its successor follows"
        else:
            waits = waits or _ending(part, known, is_lost=state is PodState.LOST)
    return PodPlan(tuple(objects), tuple(end), waits, due if waits else None)


def _place_first(
    resource: AugmentationResource, application: Manifest | None, now: datetime
) -> datetime | None:
    """Return until when the store waits for the application to have a node; None: it does not."""
    if resource.share is None or not resource.is_on_one_node:
        return None
    if application is None:
        return now + PLACED_FIRST
    made = application["metadata"].get("creationTimestamp")
    until = parse_iso(made) + PLACED_FIRST if made else now + PLACED_FIRST
    has_node = bool((application.get("spec") or {}).get("nodeName"))
    return None if has_node or until <= now else until


def _ending(part: str, pod: Manifest | None, *, is_lost: bool) -> str:
    node = ((pod or {}).get("spec") or {}).get("nodeName") or ""
    if is_lost:
        text = f"node {node} is lost, and the {part} on it may still write: bring the node back, or delete it"
        return f"{text} if it is gone for good: kubectl delete node {node}"
    return f"the pod of the {part} ends; its successor follows"
