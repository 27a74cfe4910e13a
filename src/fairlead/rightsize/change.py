"""A recommendation as a change of its owner: the patch, the record of what was there, the way back. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.keys import GPU_MEM, KAI_FRACTION, RIGHTSIZE_PREVIOUS
from fairlead.manifest.amounts import MIB
from fairlead.manifest.pod.demand import MEMORY_KEYS
from fairlead.rightsize.report import Recommendation
from fairlead.rightsize.workload import RequestForm, SizedContainer, SizeField, WorkloadKey, amount_of
from fairlead.units import Bytes, format_bytes

TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""By kind: where the pod template is that may be changed."""
_IMMUTABLE: Final = {
    "Job": "the pod template of a Job cannot be changed: set {to_set} in its manifest, delete the Job, and "
    "create it again",
    "Pod": "the resources of a pod cannot be changed: set {to_set} in its manifest, delete the pod, and "
    "create it again",
}


@dataclass(frozen=True, slots=True)
class SizeChange:
    """One size of a pod template, before and after."""

    container: str
    """Empty: an annotation of the template."""
    key: str
    previous: str
    applied: str

    def back(self) -> "SizeChange":
        """Return the opposite change."""
        return SizeChange(self.container, self.key, self.applied, self.previous)


class NotChanged(NamedTuple):
    """Why a change is not made, and what to do instead."""

    reason: str


_FIELDS: Final = ("container", "key", "previous", "applied")


def _encode(changes: tuple[SizeChange, ...]) -> dict[str, Any]:
    return {"sizes": [{name: getattr(each, name) for name in _FIELDS} for each in changes]}


def _decode(body: Mapping[str, Any]) -> tuple[SizeChange, ...]:
    rows = [[item[name] for name in _FIELDS] for item in body["sizes"]]
    if not all(isinstance(text, str) for row in rows for text in row):
        raise ValueError("a field is not text")
    changes = tuple(SizeChange(*row) for row in rows)
    if not all(each.key in MEMORY_KEYS for each in changes):
        raise ValueError("a key is no size of an accelerator")
    return changes


PREVIOUS_SIZES: Final[VersionedFormat[tuple[SizeChange, ...]]] = VersionedFormat(
    "rightsize-previous", JSON, {1: Codec(_encode, _decode)}
)
"""The annotation of an owner by which `--undo` finds the sizes that were there."""


def change_of(recommendation: Recommendation) -> SizeChange | NotChanged:
    """Return the change that a recommendation asks for, or why fairlead does not make it."""
    container, size = recommendation.container, recommendation.advice.size
    if not recommendation.changes or size is None or container.requested is None:
        return NotChanged(f"{recommendation.advice.verdict.value}: {recommendation.advice.reason}")
    if size == container.requested:
        return NotChanged("it has all memory of its accelerator: it needs one with more")
    field, kind, mebibytes = container.field, container.workload.kind, -(-size // MIB)
    amount = _scaled(container, size)
    if field.form is RequestForm.CLAIM:
        return NotChanged(
            "the spec of a ResourceClaimTemplate cannot be changed: create one with "
            f"memory: {mebibytes}Mi, and name it in the pod template"
        )
    if field.form not in (RequestForm.RESOURCE, RequestForm.ANNOTATION) or not amount:
        return NotChanged(
            f"it requests whole accelerators: a share of {format_bytes(size)} is {GPU_MEM}: {mebibytes}, "
            "which takes the fairlead scheduler"
        )
    if kind in TEMPLATES:
        return SizeChange(container.container, field.key, field.amount, amount)
    what = _IMMUTABLE.get(kind, "fairlead does not change a {kind}: set {to_set} in its pod template")
    return NotChanged(what.format(kind=kind or "workload", to_set=f"{field.key}: {amount}"))


def _scaled(container: SizedContainer, size: Bytes) -> str:
    """Return the amount of a size in the unit of the request; empty where the request has no amount."""
    number = amount_of(container.field)
    if not number or not container.requested:
        return ""
    scaled = max(1, -(-number * size // container.requested))
    return f"{min(scaled, 100) / 100:g}" if container.field.key == KAI_FRACTION else str(scaled)


def patch_for(
    workload: WorkloadKey, document: Mapping[str, Any], changes: Iterable[SizeChange]
) -> dict[str, Any] | NotChanged:
    """Return the strategic merge patch of an owner that makes changes and records what was there.

    A size that fairlead has changed before is recorded with the amount before the first change.
    """
    template = _template(workload.kind, document)
    before = {(each.container, each.key): each for each in recorded(document)}
    wanted = list(changes)
    for change in wanted:
        if why := _mismatch(template, change):
            return NotChanged(f"{why}; wait until its pods are replaced, and run the command again")
        known = before.get((change.container, change.key))
        first = known.previous if known and known.applied == change.previous else change.previous
        before[change.container, change.key] = SizeChange(change.container, change.key, first, change.applied)
    record = PREVIOUS_SIZES.encode(tuple(before.values()))
    return _patch(workload.kind, document, template, wanted, record)


def undo_patch(workload: WorkloadKey, document: Mapping[str, Any]) -> dict[str, Any] | NotChanged:
    """Return the patch that restores every recorded size and removes the record."""
    template = _template(workload.kind, document)
    backs = [each.back() for each in recorded(document)]
    if not backs:
        return NotChanged(f"{workload} has no annotation {RIGHTSIZE_PREVIOUS}: fairlead has not changed it")
    for back in backs:
        if why := _mismatch(template, back):
            return NotChanged(
                f"{why}: it was changed since; set it to {back.applied} yourself if you want that"
            )
    return _patch(workload.kind, document, template, backs, None)


def recorded(document: Mapping[str, Any]) -> tuple[SizeChange, ...]:
    """Return the changes that the annotation of an owner records; a text that is not ours counts as none."""
    text = (document.get("metadata", {}).get("annotations") or {}).get(RIGHTSIZE_PREVIOUS, "")
    try:
        return PREVIOUS_SIZES.decode(text) if text else ()
    except ValueError:
        return ()


def _template(kind: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    part: Any = document
    for name in TEMPLATES[kind]:
        part = part.get(name) or {}
    template: Mapping[str, Any] = part
    return template


def _places(template: Mapping[str, Any], change: SizeChange) -> dict[str, str]:
    """Return the amounts of a key where it stands: in the limits and requests, or in the annotations."""
    if not change.container:
        return {
            "annotations": str((template.get("metadata", {}).get("annotations") or {}).get(change.key, ""))
        }
    for container in template.get("spec", {}).get("containers", ()):
        if container.get("name") == change.container:
            resources = container.get("resources") or {}
            parts = {part: resources.get(part) or {} for part in ("limits", "requests")}
            return {
                part: str(amounts[change.key]) for part, amounts in parts.items() if change.key in amounts
            }
    return {}


def _mismatch(template: Mapping[str, Any], change: SizeChange) -> str:
    """Return how the template differs from what a change starts from; empty where it does not."""
    expected = amount_of(SizeField(RequestForm.RESOURCE, change.key, change.previous))
    places = _places(template, change)
    name = f"container {change.container}" if change.container else "the template"
    if not places or not all(places.values()):
        return f"{name} has no {change.key}"
    for amount in places.values():
        if amount_of(SizeField(RequestForm.RESOURCE, change.key, amount)) != expected:
            return f"{name} has {change.key}: {amount}, not {change.previous}"
    return ""


def _patch(
    kind: str,
    document: Mapping[str, Any],
    template: Mapping[str, Any],
    changes: Iterable[SizeChange],
    record: str | None,
) -> dict[str, Any]:
    annotations: dict[str, str] = {}
    containers: dict[str, dict[str, dict[str, str]]] = {}
    for change in changes:
        if not change.container:
            annotations[change.key] = change.applied
        for part in _places(template, change) if change.container else ():
            containers.setdefault(change.container, {}).setdefault(part, {})[change.key] = change.applied
    new: dict[str, Any] = {"metadata": {"annotations": annotations}} if annotations else {}
    if containers:
        new["spec"] = {
            "containers": [{"name": name, "resources": parts} for name, parts in containers.items()]
        }
    for name in reversed(TEMPLATES[kind]):
        new = {name: new}
    version = document.get("metadata", {}).get("resourceVersion")
    return {"metadata": {"resourceVersion": version, "annotations": {RIGHTSIZE_PREVIOUS: record}}, **new}
