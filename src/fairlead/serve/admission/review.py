"""What an API server asks of an admission webhook, and the rules by which it is answered. Pure.

A Binding and an Eviction name a pod and do not carry it. So the pod is read first, and the request must carry
its uid: the API server then binds or evicts just the pod that was read, or none.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cluster.http import codec
from fairlead.cluster.meta import Object, ObjectPart
from fairlead.cluster.objects import Condition
from fairlead.errors import ClusterError
from fairlead.keys import PREEMPTOR

BINDING: Final = "binding"
EVICTION: Final = "eviction"
CRITICAL: Final = 2_000_000_000
"""The priority from which on pods belong to the cluster itself, as in kube-scheduler."""
DISRUPTED: Final = "DisruptionTarget"
"""The condition of a victim; its message names that pod too."""
_NAMES: Final = re.compile(r"(?<![a-z0-9./-])[a-z0-9][a-z0-9-]{0,62}/[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_ENDED: Final = ("Succeeded", "Failed")
_MOST: Final = 3
"""Pods that a message may name."""


class ReviewedGroup(ObjectPart, frozen=True):
    """The group that a pod is placed with."""

    pod_group_name: str = ""


class PodSpec(ObjectPart, frozen=True):
    """As much of a pod as the rules look at."""

    scheduler_name: str = ""
    node_name: str = ""
    priority: int = 0
    preemption_policy: str = ""
    scheduling_group: ReviewedGroup = ReviewedGroup()


class PodStatus(ObjectPart, frozen=True):
    """How a pod is doing."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Pod(Object, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class _User(ObjectPart, frozen=True):
    username: str = ""


class _Preconditions(ObjectPart, frozen=True):
    uid: str = ""


class _DeleteOptions(ObjectPart, frozen=True):
    preconditions: _Preconditions = _Preconditions()


class _Asked(Object, frozen=True):
    """A Binding or an Eviction."""

    kind: str = ""
    delete_options: _DeleteOptions = _DeleteOptions()


class _Request(ObjectPart, frozen=True):
    uid: str = ""
    namespace: str = ""
    name: str = ""
    user_info: _User = _User()
    object: _Asked = _Asked()


class _Review(ObjectPart, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: _Request = _Request()


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A binding or an eviction that an account wants."""

    uid: str
    """Of the question itself."""
    user: str
    what: str
    """`binding`, `eviction`, or another kind of object."""
    namespace: str
    pod: str
    pod_uid: str
    """Of the pod that is meant; empty where the request would take any pod of that name."""
    preemptor: str = ""
    """The pod for which room is made, where the Eviction names it: `namespace/name`."""


def parse(body: bytes) -> AdmissionRequest:
    """Read an AdmissionReview; ValueError where it is none."""
    try:
        review = codec.decode_as(_Review, body, "AdmissionReview")
    except (ClusterError, UnicodeDecodeError) as error:
        raise ValueError(f"this is no AdmissionReview: {error}") from None
    if review.kind != "AdmissionReview" or not review.request.uid:
        raise ValueError("this is no AdmissionReview of admission.k8s.io/v1")
    asked, meta = review.request, review.request.object.metadata
    what = asked.object.kind.lower()
    uid = asked.object.delete_options.preconditions.uid if what == EVICTION else meta.uid
    return AdmissionRequest(
        asked.uid,
        asked.user_info.username,
        what,
        asked.namespace,
        asked.name or meta.name,
        uid,
        meta.annotations.get(PREEMPTOR, ""),
    )


def answer(uid: str, refusal: str) -> bytes:
    """Return the AdmissionReview that allows a request, or says why not."""
    response: dict[str, Any] = {"uid": uid, "allowed": not refusal}
    if refusal:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": refusal}
    return codec.encode_plain(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )


def refuse_binding(asked: AdmissionRequest, pod: Pod | None, scheduler: str) -> str:
    """Return why a pod may not be bound by our scheduler's account; empty where it may."""
    if pod is None or not asked.pod_uid or pod.metadata.uid != asked.pod_uid:
        return "fairlead-scheduler/pod-uid: the binding names no pod that exists by its uid"
    if pod.spec.scheduler_name != scheduler:
        return f"fairlead-scheduler/own-pods: this pod is not one with schedulerName {scheduler}"
    return ""


def refuse_victim(asked: AdmissionRequest, victim: Pod | None, protected: Sequence[str]) -> str:
    """Return why a pod may not be evicted, whatever needs its place; empty where it may."""
    if victim is None or not asked.pod_uid or victim.metadata.uid != asked.pod_uid:
        return "fairlead-scheduler/pod-uid: the eviction names no pod that exists by its uid"
    if asked.namespace in protected:
        return f"fairlead-scheduler/protected: pods of namespace {asked.namespace} are never evicted"
    if victim.spec.priority >= CRITICAL:
        return "fairlead-scheduler/critical: pods of the cluster's own priority classes are never evicted"
    if not victim.spec.node_name:
        return "fairlead-scheduler/bound: this pod has no node, so that its eviction would make no room"
    return ""


def named_preemptors(asked: AdmissionRequest, victim: Pod) -> list[tuple[str, str]]:
    """Return namespaces and names of the pods for which a victim is said to make room."""
    said = next(
        (condition.message for condition in victim.status.conditions if condition.type == DISRUPTED), ""
    )
    texts = [asked.preemptor, said]
    found = dict.fromkeys(name for text in texts for name in _NAMES.findall(text))
    pairs = [(namespace, name) for namespace, _, name in (each.partition("/") for each in found)]
    return [pair for pair in pairs if pair != (asked.namespace, asked.pod)][:_MOST]


def outranks(victim: Pod, pod: Pod, scheduler: str, group_priority: int = 0) -> bool:
    """Say whether a pod waits for our scheduler and may have a victim evicted."""
    waits = not (pod.spec.node_name or pod.metadata.deletion_timestamp or pod.status.phase in _ENDED)
    allowed = pod.spec.scheduler_name == scheduler and pod.spec.preemption_policy != "Never"
    return waits and allowed and max(pod.spec.priority, group_priority) > victim.spec.priority


def refuse_eviction(victim: Pod, outranked: Iterable[bool], scheduler: str) -> str:
    """Return why nothing that waits may have this victim's place; empty where something may."""
    if any(outranked):
        return ""
    return (
        f"fairlead-scheduler/lower-priority: no pod with schedulerName {scheduler} waits that has a higher "
        f"priority than {victim.spec.priority} and may preempt"
    )
