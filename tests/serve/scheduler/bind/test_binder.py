"""Plans are written in order, together or not at all, and lost writes are resolved."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import msgspec
import pytest

from fairlead.cache.types import CLAIMS, EXTENDED_RESOURCE_CLAIM, PODS, LiveClaim, LivePod
from fairlead.errors import AccessError, ClusterError, ConflictError, TooLargeError
from fairlead.placement import Placement
from fairlead.request import Request
from fairlead.serve.machine.requests import STRATEGIC
from fairlead.serve.scheduler.bind.binder import Binder
from fairlead.serve.scheduler.bind.requests import Fences
from fairlead.serve.scheduler.bind.writes import BindingPlan, fence_pod
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.serve.scheduler.flows import Fate, Wire, lost, run
from tests.serve.scheduler.objects import GIB, pod, read

EPOCH = 3
NONCES = count()
"""Each mark is new: the same mark again would change nothing, and a late write would succeed."""


def always(epoch: int) -> bool:
    """Lead in every term."""
    return True


def fences(log: Callable[[str], None] = lambda line: None) -> Fences:
    """Return fences with a new nonce for each mark."""
    return Fences(log, lambda: f"nonce-{next(NONCES)}")


def binder(leads: Callable[[int], bool] = always) -> Binder:
    return Binder(leads, fences())


def plan_for(wire: Wire, name: str, *, own_claim: bool = True) -> BindingPlan:
    """Create a pod, and return a plan for it."""
    made = wire.api.create("pods", msgspec.to_builtins(pod(name, mib=1024)))
    pending: LivePod = read(PODS, made)
    request = Request(name, uid=pending.metadata.uid)
    return BindingPlan(
        pending, Placement(request, "n", (DeviceShare("gpu-0", Bytes(GIB)),)), own_claim=own_claim
    )


def bind(wire: Wire, *plans: BindingPlan, leads: Callable[[int], bool] = always) -> dict[str, str]:
    return run(binder(leads).bind(plans, EPOCH), wire.perform)


def claims(wire: Wire) -> list[str]:
    return [each["metadata"]["name"] for each in wire.api.all("resourceclaims")]


def test_a_share_is_named_created_allocated_and_bound() -> None:
    wire = Wire()
    assert bind(wire, plan_for(wire, "a")) == {}
    assert wire.requests == [
        ("PATCH", "pods/a/status"),
        ("POST", "resourceclaims"),
        ("PATCH", "resourceclaims/a-fairlead-00000001/status"),
        ("POST", "pods/a/binding"),
    ]


def test_the_claims_of_a_gang_are_reserved_before_the_first_pod_is_bound() -> None:
    wire = Wire()
    bind(wire, plan_for(wire, "a"), plan_for(wire, "b"))
    binds = [at for at, (_, path) in enumerate(wire.requests) if path.endswith("/binding")]
    assert binds == [6, 7]


def test_where_one_claim_of_a_gang_cannot_be_reserved_all_are_unreserved_and_no_pod_is_bound() -> None:
    wire = Wire(lambda method, path: ConflictError("not as you thought") if path == "pods/b/status" else None)
    plans = plan_for(wire, "a"), plan_for(wire, "b")
    assert set(bind(wire, *plans)) == {plan.uid for plan in plans}
    assert ("POST", "resourceclaims") in wire.requests
    assert claims(wire) == []
    assert not [path for _, path in wire.requests if path.endswith("/binding")]


def test_the_claim_of_a_pod_that_another_client_bound_is_deallocated() -> None:
    wire = Wire(lambda method, path: ConflictError("already assigned") if path.endswith("/binding") else None)
    plan = plan_for(wire, "a")
    assert bind(wire, plan) == {plan.uid: "already assigned"}
    assert claims(wire) == []


def test_a_binding_whose_answer_was_lost_counts_where_the_pod_has_its_node() -> None:
    wire = Wire(lambda method, path: "lost" if path.endswith("/binding") else None)
    assert bind(wire, plan_for(wire, "a", own_claim=False)) == {}
    assert wire.requests == [("POST", "pods/a/binding"), ("PATCH", "pods/a/status")]


def test_a_late_binding_is_fenced_each_time() -> None:
    wire = Wire(lambda method, path: "late" if path.endswith("/binding") else None)
    plan = plan_for(wire, "a", own_claim=False)
    assert set(bind(wire, plan)) == {plan.uid}
    again: LivePod = read(PODS, wire.api.get("pods", "a"))
    assert set(bind(wire, BindingPlan(again, plan.placement))) == {plan.uid}
    assert wire.arrive() == ["ConflictError", "ConflictError"]


def test_a_late_allocation_is_fenced_and_its_claim_deleted() -> None:
    def fate(method: str, path: str) -> Fate:
        return "late" if path.endswith("00000001/status") else None

    wire = Wire(fate)
    plan = plan_for(wire, "a")
    assert set(bind(wire, plan)) == {plan.uid}
    assert wire.arrive() == ["NotFoundError"]
    assert claims(wire) == []


def test_a_replica_that_no_longer_leads_allocates_nothing_and_leaves_its_claims_to_the_next_leader() -> None:
    wire = Wire()
    plan = plan_for(wire, "a")
    assert bind(wire, plan, leads=lambda epoch: False) == {plan.uid: "another replica leads now"}
    assert claims(wire) == ["a-fairlead-00000001"]
    assert wire.api.get("resourceclaims", claims(wire)[0]).get("status", {}) == {}


def test_a_pod_that_is_deleted_while_it_is_being_placed_leaves_no_claim() -> None:
    def fate(method: str, path: str) -> Fate:
        if path.endswith("/binding"):
            wire.api.delete("pods", "a")
        return None

    wire = Wire(fate)
    plan = plan_for(wire, "a")
    assert bind(wire, plan) == {plan.uid: "no a"}
    assert claims(wire) == []


def test_a_write_of_another_client_to_a_pods_status_does_not_prevent_its_binding() -> None:
    wire = Wire()
    plan = plan_for(wire, "a", own_claim=False)
    status = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]}}
    path = f"/api/v1/namespaces/default/pods/{plan.pod.metadata.name}/status"
    wire.api.request("PATCH", path, msgspec.json.encode(status), STRATEGIC)
    assert bind(wire, plan) == {}
    assert wire.requests == [("POST", "pods/a/binding"), ("GET", "pods/a"), ("POST", "pods/a/binding")]


def marked(wire: Wire, pod: LivePod, epoch: int, nonce: str) -> LivePod:
    """Mark a pod as a leader does, and return it."""
    write = fence_pod(pod, epoch, nonce)
    body = msgspec.json.encode(write.body)
    fenced: LivePod = read(
        PODS, json.loads(wire.api.request(write.method, write.path, body, write.content_type))
    )
    return fenced


@pytest.mark.parametrize("epoch", [3, 4])
def test_the_mark_of_a_leader_of_any_epoch_prevents_a_binding(epoch: int) -> None:
    wire = Wire()
    plan = plan_for(wire, "a", own_claim=False)
    before = marked(wire, plan.pod, 3, "x")
    marked(wire, plan.pod, epoch, "y")
    assert list(bind(wire, replace(plan, pod=before))) == [plan.uid]
    assert wire.requests == [("POST", "pods/a/binding"), ("GET", "pods/a")]


def test_fencing_a_pod_is_retried_until_it_succeeds() -> None:
    troubles: list[ClusterError] = [lost(), AccessError("you may not"), AccessError("you may not")]
    troubles.append(ConflictError("too many write at once"))
    wire = Wire(lambda method, path: troubles.pop(0) if method == "PATCH" and troubles else None)
    logged: list[str] = []
    waiting = plan_for(wire, "a").pod
    touched = run(fences(logged.append).fence_pod(waiting, 4), wire.perform)
    assert touched is not None
    assert touched.leader_epoch == 4
    assert logged == ["cannot fence, retrying: you may not"]
    assert wire.slept == [1.0] * 3


def test_a_deleted_or_replaced_object_is_not_fenced() -> None:
    wire = Wire()
    pod = plan_for(wire, "a").pod
    wire.api.delete("pods", "a")
    assert run(fences().fence_pod(pod, 4), wire.perform) is None
    plan_for(wire, "a")
    assert run(fences().fence_pod(pod, 4), wire.perform) is None
    assert run(fences().fence_claim(("default", "none"), 4), wire.perform) is None


def test_a_pod_that_its_owner_made_too_large_for_a_mark_is_changed_by_making_it_smaller() -> None:
    too_large = [TooLargeError("etcdserver: request is too large")]
    wire = Wire(lambda method, path: too_large.pop() if method == "PATCH" and too_large else None)
    plan = plan_for(wire, "a", own_claim=False)
    status = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]}}
    body = msgspec.json.encode(status)
    waiting = read(PODS, json.loads(wire.api.request("PATCH", _status(plan.pod), body, STRATEGIC)))
    touched = run(fences().fence_pod(waiting, 4), wire.perform)
    assert touched is not None
    assert touched.condition("PodScheduled").message == ""
    assert int(touched.metadata.resource_version) > int(waiting.metadata.resource_version)
    assert wire.requests == [("PATCH", "pods/a/status")] * 2


def test_an_object_that_cannot_be_made_smaller_is_skipped() -> None:
    wire = Wire(lambda method, path: TooLargeError("too large") if method == "PATCH" else None)
    logged: list[str] = []
    assert run(fences(logged.append).fence_pod(plan_for(wire, "a").pod, 4), wire.perform) is None
    assert run(fences(logged.append).fence_claim(("default", "c"), 4), wire.perform) is None
    assert logged == ["not fenced: too large"] * 2
    plan = plan_for(wire, "b")
    assert bind(wire, plan) == {plan.uid: "too large"}


def _status(pod: LivePod) -> str:
    return PODS.path("default", pod.metadata.name, "status")


def test_a_claim_in_use_by_another_pod_is_not_deleted_whatever_its_annotations_are() -> None:
    wire = Wire()
    user, other = plan_for(wire, "user").pod, plan_for(wire, "other").pod
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "user", "uid": user.metadata.uid, "controller": True}
    reserved = [{"resource": "pods", "name": "user", "uid": user.metadata.uid}]
    meta = {
        "name": "c",
        "namespace": "default",
        "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
        "ownerReferences": [owner],
    }
    made = wire.api.create("resourceclaims", {"metadata": meta, "status": {"reservedFor": reserved}})
    claim: LiveClaim = read(CLAIMS, made)
    run(binder().deallocate(claim, other, EPOCH), wire.perform)
    assert claims(wire) == ["c"], "it is in use"
    run(binder().deallocate(claim, user, EPOCH), wire.perform)
    assert claims(wire) == []
