"""AdmissionReviews of bindings and evictions, and the rules that decide them. Pure.

A Binding and an Eviction name a pod and do not contain it. So the webhook reads the pod first, and the
request must carry its uid: the API server then binds or evicts exactly the pod that was read, or none.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cluster.http import codec
from fairlead.cluster.meta import Object, ObjectPart
from fairlead.cluster.objects import Condition
from fairlead.errors import ClusterError
from fairlead.keys import FULL_DEVICE, PLACEMENT, PREEMPTOR
from fairlead.placement import parse_shares

BINDING: Final = "binding"
EVICTION: Final = "eviction"
CRITICAL: Final = 2_000_000_000
"""The lowest priority of the cluster's own pods, as in kube-scheduler."""
DISRUPTED: Final = "DisruptionTarget"
"""The condition of a victim; its message names the preemptor too."""
_NAMES: Final = re.compile(r"(?<![a-z0-9./-])[a-z0-9][a-z0-9-]{0,62}/[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_ENDED: Final = ("Succeeded", "Failed")
_MOST: Final = 3
"""The most preemptors that are read from a message."""


class ReviewedGroup(ObjectPart, frozen=True):
    """The PodGroup of a pod."""

    pod_group_name: str = ""


class PodSpec(ObjectPart, frozen=True):
    """The fields of a pod's spec that the rules use."""

    scheduler_name: str = ""
    node_name: str = ""
    priority: int = 0
    preemption_policy: str = ""
    scheduling_group: ReviewedGroup = ReviewedGroup()


class PodStatus(ObjectPart, frozen=True):
    """The fields of a pod's status that the rules use."""

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
    """A binding or an eviction that an account requests."""

    uid: str
    """The uid of the AdmissionReview itself."""
    user: str
    what: str
    """`binding`, `eviction`, or another kind of object."""
    namespace: str
    pod: str
    pod_uid: str
    """The uid of the pod; empty where the request would apply to any pod of that name."""
    preemptor: str = ""
    """The preemptor, where the Eviction names it: `namespace/name`."""
    full_device: str = ""
    """The accelerator with too little memory, where the Eviction names one: `node/device`."""


def parse(body: bytes) -> AdmissionRequest:
    """Decode an AdmissionReview; ValueError where the body is none."""
    try:
        review = codec.decode_as(_Review, body, "AdmissionReview")
    except (ClusterError, UnicodeDecodeError) as error:
        raise ValueError(f"the body is not an AdmissionReview: {error}") from None
    if review.kind != "AdmissionReview" or not review.request.uid:
        raise ValueError("the body is not an AdmissionReview of admission.k8s.io/v1")
    request, meta = review.request, review.request.object.metadata
    what = request.object.kind.lower()
    uid = request.object.delete_options.preconditions.uid if what == EVICTION else meta.uid
    return AdmissionRequest(
        request.uid,
        request.user_info.username,
        what,
        request.namespace,
        request.name or meta.name,
        uid,
        meta.annotations.get(PREEMPTOR, ""),
        meta.annotations.get(FULL_DEVICE, ""),
    )


def answer(uid: str, refusal: str) -> bytes:
    """Return the AdmissionReview that allows a request, or denies it with a reason."""
    response: dict[str, Any] = {"uid": uid, "allowed": not refusal}
    if refusal:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": refusal}
    return codec.encode_plain(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )


def refuse_binding(request: AdmissionRequest, pod: Pod | None, scheduler: str) -> str:
    """Return why the scheduler's account may not bind a pod; empty where it may."""
    if pod is None or not request.pod_uid or pod.metadata.uid != request.pod_uid:
        return "fairlead-scheduler/pod-uid: the binding names no pod that exists by its uid"
    if pod.spec.scheduler_name != scheduler:
        return f"fairlead-scheduler/own-pods: this pod is not one with schedulerName {scheduler}"
    return ""


def refuse_victim(request: AdmissionRequest, victim: Pod | None, protected: Sequence[str]) -> str:
    """Return why a pod may not be evicted for any preemptor; empty where it may."""
    if victim is None or not request.pod_uid or victim.metadata.uid != request.pod_uid:
        return "fairlead-scheduler/pod-uid: the eviction names no pod that exists by its uid"
    if request.namespace in protected:
        return f"fairlead-scheduler/protected: pods of namespace {request.namespace} are never evicted"
    if victim.spec.priority >= CRITICAL:
        return "fairlead-scheduler/critical: pods of the cluster's own priority classes are never evicted"
    if not victim.spec.node_name:
        return "fairlead-scheduler/bound: this pod has no node, so that its eviction would make no room"
    return ""


def named_preemptors(request: AdmissionRequest, victim: Pod) -> list[tuple[str, str]]:
    """Return namespaces and names of the preemptors that the request or the victim's condition names."""
    message = next(
        (condition.message for condition in victim.status.conditions if condition.type == DISRUPTED), ""
    )
    texts = [request.preemptor, message]
    names = dict.fromkeys(name for text in texts for name in _NAMES.findall(text))
    pairs = [(namespace, name) for namespace, _, name in (each.partition("/") for each in names)]
    return [pair for pair in pairs if pair != (request.namespace, request.pod)][:_MOST]


def outranks(victim: Pod, pod: Pod, scheduler: str, group_priority: int = 0) -> bool:
    """Say whether a pod is pending for our scheduler and may preempt a victim."""
    pending = not (pod.spec.node_name or pod.metadata.deletion_timestamp or pod.status.phase in _ENDED)
    allowed = pod.spec.scheduler_name == scheduler and pod.spec.preemption_policy != "Never"
    return pending and allowed and max(pod.spec.priority, group_priority) > victim.spec.priority


def refuse_guard(request: AdmissionRequest, victim: Pod, scheduler: str, *, allowed: bool) -> str:
    """Return why a pod may not be evicted from an accelerator that is nearly full; empty where it may."""
    if not allowed:
        return "fairlead-scheduler/full-device: this cluster's scheduler does not place pods by measured use"
    shares = parse_shares(victim.metadata.annotations.get(PLACEMENT, "")) or ()
    held = {f"{victim.spec.node_name}/{share.device}" for share in shares}
    if victim.spec.scheduler_name != scheduler or request.full_device not in held:
        return (
            f"fairlead-scheduler/full-device: this pod is not one with schedulerName {scheduler} that has a "
            f"share of {request.full_device[:128]}"
        )
    return ""


def refuse_eviction(victim: Pod, outranked: Iterable[bool], scheduler: str) -> str:
    """Return why no pending pod may preempt this victim; empty where one may."""
    if any(outranked):
        return ""
    return (
        f"fairlead-scheduler/lower-priority: no pod with schedulerName {scheduler} waits that has a higher "
        f"priority than {victim.spec.priority} and may preempt"
    )
