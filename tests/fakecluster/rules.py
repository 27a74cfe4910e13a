"""The API server's rules for creating, changing and deleting objects of each kind. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.cluster.meta import Cause
from tests.fakecluster import patches
from tests.fakecluster.store import Document

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_KEPT: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
"""Metadata that only the server writes."""
_POD_CHANGES: Final = frozenset(
    {"activeDeadlineSeconds", "schedulingGates", "terminationGracePeriodSeconds", "tolerations"}
)
_GATED_CHANGES: Final = frozenset({"affinity", "nodeSelector"})


class Refused(Exception):  # noqa: N818 - not an error of the program: the server's refusal
    """The server refuses a request; `name` is the object that is missing."""

    def __init__(
        self, code: int, reason: str, message: str, name: str = "", causes: tuple[Cause, ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.name = name
        self.causes = causes


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a kind."""

    status: bool = False
    """Its status is a subresource."""
    unconditional: bool = True
    """An update needs no resource version."""
    counts: bool = False
    """Its generation counts the changes of its spec."""
    fields: frozenset[str] = frozenset()
    """The fields that selectors may name, besides name and namespace."""
    defaults: Mapping[str, Any] = field(default_factory=dict)


RULES: Final[Mapping[str, Rules]] = {
    "pods": Rules(
        status=True,
        counts=True,
        fields=frozenset(
            {
                "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
                "status.nominatedNodeName", "status.phase", "status.podIP",
            }
        ),
        defaults={
            "spec": {
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "serviceAccountName": "default",
                "terminationGracePeriodSeconds": 30,
            },
            "status": {"phase": "Pending"},
        },
    ),
    "nodes": Rules(status=True, fields=frozenset({"spec.unschedulable"})),
    "namespaces": Rules(
        status=True, fields=frozenset({"status.phase"}), defaults={"status": {"phase": "Active"}}
    ),
    "events": Rules(
        fields=frozenset(
            {"involvedObject.kind", "involvedObject.name", "involvedObject.uid", "reason", "source", "type"}
        )
    ),
    "configmaps": Rules(),
    "serviceaccounts": Rules(),
    "leases.coordination.k8s.io": Rules(unconditional=False),
    "resourceslices.resource.k8s.io": Rules(
        unconditional=False, counts=True, fields=frozenset({"spec.driver", "spec.nodeName"})
    ),
    "resourceclaims.resource.k8s.io": Rules(status=True, unconditional=False),
    "customresourcedefinitions.apiextensions.k8s.io": Rules(status=True, unconditional=False, counts=True),
}  # fmt: skip
CUSTOM: Final = Rules(unconditional=False, counts=True)
CUSTOM_WITH_STATUS: Final = Rules(status=True, unconditional=False, counts=True)


def new_object(rules: Rules, document: Document, server: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new object; `server` is the metadata that the server sets."""
    metadata = document.get("metadata", {})
    if metadata.get("resourceVersion"):
        raise Refused(500, "", "resourceVersion should not be set on objects to be created")
    whole: dict[str, Any] = patches.merge(rules.defaults, document)
    if rules.counts:
        server = {**server, "generation": 1}
    whole["metadata"] = {**metadata, **server}
    if not _NAME.fullmatch(whole["metadata"].get("name", "")):
        raise Refused(422, "Invalid", f"metadata.name: Invalid value: {whole['metadata'].get('name', '')!r}")
    return whole


def updated_object(rules: Rules, old: Document, new: Document, *, status: bool) -> dict[str, Any]:
    """Return an object after a write: fields that a client may not change stay unchanged."""
    check(old, new.get("metadata", {}))
    if not rules.unconditional and not new.get("metadata", {}).get("resourceVersion"):
        raise Refused(422, "Invalid", "metadata.resourceVersion: must be specified for an update")
    if status:
        return _with_status({**old}, new)
    metadata = {**new.get("metadata", {})}
    for name in (*_KEPT, "name", "namespace", "resourceVersion"):
        metadata.pop(name, None)
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
    if old["metadata"].get("deletionTimestamp"):
        _no_new_finalizers(old["metadata"], metadata)
    whole = {**new, "metadata": metadata}
    if rules.status:
        whole = _with_status(whole, old)
    if rules.counts and whole.get("spec") != old.get("spec"):
        metadata["generation"] = metadata.get("generation", 0) + 1
    return whole


def _with_status(document: dict[str, Any], source: Document) -> dict[str, Any]:
    document.pop("status", None)
    return {**document, "status": source["status"]} if "status" in source else document


def _no_new_finalizers(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    added = set(new.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if added:
        what = ", ".join(sorted(added))
        raise Refused(422, "Invalid", f"metadata.finalizers: Forbidden: no new ones while deleting: {what}")


def check(old: Document, wanted: Mapping[str, Any]) -> None:
    """Refuse a write whose uid or version does not match the object."""
    name, now = old["metadata"]["name"], old["metadata"]
    if wanted.get("uid") and wanted["uid"] != now["uid"]:
        raise Refused(
            409, "Conflict", f"{name}: uid mismatch: the object is {now['uid']}, not {wanted['uid']}"
        )
    if wanted.get("resourceVersion") and wanted["resourceVersion"] != now["resourceVersion"]:
        raise Refused(409, "Conflict", f"{name}: the object has been modified")


def check_pod(old: Document, new: Document) -> None:
    """Refuse changes of a pod's spec that the API server refuses."""
    before, after = _frozen_spec(old), _frozen_spec(new)
    if before != after:
        fields = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        raise Refused(422, "Invalid", f"spec: Forbidden: pod updates may not change {', '.join(fields)}")


def _frozen_spec(pod: Document) -> dict[str, Any]:
    spec = pod.get("spec", {})
    free = _POD_CHANGES | _GATED_CHANGES if spec.get("schedulingGates") else _POD_CHANGES
    fixed = {key: value for key, value in spec.items() if key not in free}
    for name in ("containers", "initContainers"):
        if name in fixed:
            fixed[name] = [{**container, "image": ""} for container in fixed[name]]
    return fixed


def is_over(document: Document) -> bool:
    """Return whether the deletion of an object is complete."""
    metadata = document["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return bool(metadata.get("deletionTimestamp")) and not waits


def grace_of(rules: Rules, document: Document, requested: int | None) -> int:
    """Return the grace period of an object in seconds: only a bound pod has one."""
    if rules is not RULES["pods"] or not document["spec"].get("nodeName"):
        return 0
    if document.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    default: int = document["spec"].get("terminationGracePeriodSeconds", 30)
    return default if requested is None else requested


def deleting_object(document: Document, at: str, grace: int) -> dict[str, Any]:
    """Return an object marked as deleting; its grace period can only become shorter."""
    metadata = {**document["metadata"]}
    if not metadata.get("deletionTimestamp"):
        metadata |= {"deletionTimestamp": at, "deletionGracePeriodSeconds": grace}
        if "generation" in metadata:
            metadata["generation"] += 1
    metadata["deletionGracePeriodSeconds"] = min(grace, metadata["deletionGracePeriodSeconds"])
    return {**document, "metadata": metadata}
