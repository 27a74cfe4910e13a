"""AdmissionReviews are decoded, and the rules decide them."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fairlead import keys
from fairlead.placement import PLACEMENTS
from fairlead.serve.admission import review
from fairlead.serve.admission.review import AdmissionRequest, Pod
from fairlead.share import DeviceShare
from fairlead.units import Bytes


def review_of(kind: str, **document: Any) -> bytes:
    """Return a review as an API server sends it, empty fields and all."""
    body = {"kind": kind, "apiVersion": "v1", "metadata": {"name": "web", "creationTimestamp": None}}
    body["metadata"] |= document.pop("metadata", {})
    request = {
        "uid": "1",
        "namespace": "shop",
        "name": "web",
        "userInfo": {"username": "me", "groups": None},
        "object": {**body, **document},
        "oldObject": None,
    }
    return json.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    ).encode()


def pod(name: str = "web", **spec: Any) -> Pod:
    status = spec.pop("status", {})
    meta = {"name": name, "namespace": "shop", "uid": name, **spec.pop("meta", {})}
    return msgspec.convert(
        {"metadata": meta, "spec": {"schedulerName": "fairlead", **spec}, "status": status}, Pod
    )


def test_a_binding_and_an_eviction_are_decoded() -> None:
    binding = review.parse(review_of("Binding", metadata={"uid": "u"}))
    assert binding == AdmissionRequest("1", "me", "binding", "shop", "web", "u")
    notes = {"annotations": {keys.PREEMPTOR: "shop/trainer"}}
    options = {"preconditions": {"uid": "u", "resourceVersion": "7"}}
    eviction = review.parse(review_of("Eviction", metadata=notes, deleteOptions=options))
    assert eviction == AdmissionRequest("1", "me", "eviction", "shop", "web", "u", "shop/trainer")
    assert review.parse(review_of("Eviction", deleteOptions=None)).pod_uid == ""
    full = {"annotations": {keys.FULL_DEVICE: "n1/gpu-0"}}
    assert review.parse(review_of("Eviction", metadata=full)).full_device == "n1/gpu-0"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\xff", b'{"kind": "AdmissionReview"}', b'{"kind": 1}'])
def test_a_body_that_is_not_a_review_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match="not an AdmissionReview"):
        review.parse(body)


def test_an_answer_has_the_uid_of_its_review() -> None:
    yes, no = json.loads(review.answer("1", "")), json.loads(review.answer("1", "why"))
    assert yes["response"] == {"uid": "1", "allowed": True}
    assert (no["response"]["allowed"], no["response"]["status"]["message"]) == (False, "why")


BIND = AdmissionRequest("1", "me", "binding", "shop", "web", "web")
BINDINGS: dict[str, tuple[Pod | None, str]] = {
    "its own": (pod(), ""),
    "another scheduler's": (pod(schedulerName="default-scheduler"), "own-pods"),
    "one that came in its place": (pod(meta={"uid": "new"}), "pod-uid"),
    "one that is gone": (None, "pod-uid"),
}


@pytest.mark.parametrize("what", BINDINGS)
def test_bindings(what: str) -> None:
    live, rule = BINDINGS[what]
    assert _rule(review.refuse_binding(BIND, live, "fairlead")) == rule


EVICT = AdmissionRequest("1", "me", "eviction", "shop", "web", "web")
VICTIMS: dict[str, tuple[Pod | None, str]] = {
    "one that runs": (pod(nodeName="n1"), ""),
    "one just below critical": (pod(nodeName="n1", priority=review.CRITICAL - 1), ""),
    "a critical one": (pod(nodeName="n1", priority=review.CRITICAL), "critical"),
    "one that waits": (pod(), "bound"),
    "one that is gone": (None, "pod-uid"),
}


@pytest.mark.parametrize("what", VICTIMS)
def test_victims(what: str) -> None:
    live, rule = VICTIMS[what]
    assert _rule(review.refuse_victim(EVICT, live, ())) == rule


def test_protected_namespaces() -> None:
    assert _rule(review.refuse_victim(EVICT, pod(nodeName="n1"), ("kube-system", "shop"))) == "protected"


OUTRANKS: dict[str, tuple[Pod, int, bool]] = {
    "a higher one": (pod("a", priority=11), 0, True),
    "an equal one": (pod("a", priority=10), 0, False),
    "one of a higher group": (pod("a"), 11, True),
    "one that preempts nothing": (pod("a", priority=11, preemptionPolicy="Never"), 0, False),
    "one that has a node": (pod("a", priority=11, nodeName="n1"), 0, False),
    "one that has ended": (pod("a", priority=11, status={"phase": "Failed"}), 0, False),
    "one that is being deleted": (
        pod("a", priority=11, meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        0,
        False,
    ),
    "one of another scheduler": (pod("a", priority=11, schedulerName="x"), 0, False),
}


@pytest.mark.parametrize("what", OUTRANKS)
def test_preemptors(what: str) -> None:
    waiting, group, yes = OUTRANKS[what]
    victim = pod(nodeName="n1", priority=10)
    assert review.outranks(victim, waiting, "fairlead", group) is yes
    assert _rule(review.refuse_eviction(victim, [yes], "fairlead")) == ("" if yes else "lower-priority")


SHARE = {keys.PLACEMENT: PLACEMENTS.encode((DeviceShare("gpu-0", Bytes(1 << 30)),))}
FULL: dict[str, tuple[Pod, bool, str]] = {
    "its own, with a share of it": (pod(nodeName="n1", meta={"annotations": SHARE}), True, ""),
    "without the policy": (pod(nodeName="n1", meta={"annotations": SHARE}), False, "full-device"),
    "its own, on another node": (pod(nodeName="n2", meta={"annotations": SHARE}), True, "full-device"),
    "its own, without a share": (pod(nodeName="n1"), True, "full-device"),
    "another scheduler's": (
        pod(nodeName="n1", meta={"annotations": SHARE}, schedulerName="x"),
        True,
        "full-device",
    ),
}


@pytest.mark.parametrize("what", FULL)
def test_victims_on_a_device_that_is_nearly_full(what: str) -> None:
    victim, allowed, rule = FULL[what]
    request = replace(EVICT, full_device="n1/gpu-0")
    assert _rule(review.refuse_guard(request, victim, "fairlead", allowed=allowed)) == rule


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("evicted to make room for shop/trainer", [("shop", "trainer")]),
        ("preempted for default/train-0.a, of priority 10.", [("default", "train-0.a")]),
        ("making room for shop/web", []),
        ("/etc/passwd and ../x", []),
    ],
)
def test_the_condition_of_a_victim_names_its_preemptors(text: str, names: list[tuple[str, str]]) -> None:
    conditions = [{"type": review.DISRUPTED, "status": "True", "message": text}]
    victim = pod(nodeName="n1", status={"conditions": conditions})
    assert review.named_preemptors(EVICT, victim) == names


def _rule(refusal: str) -> str:
    return refusal.partition(":")[0].removeprefix("fairlead-scheduler/")
