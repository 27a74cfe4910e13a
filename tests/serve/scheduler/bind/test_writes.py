"""The writes of a decision, their order, and their conditions."""

import json
from typing import Any

import pytest

from fairlead.cache import types as seen
from fairlead.cache.types import PLACEMENT, LivePod
from fairlead.placement import Placement
from fairlead.request import Request
from fairlead.serve.scheduler.bind import writes
from fairlead.serve.scheduler.bind.writes import BindingPlan
from fairlead.serve.scheduler.effects import Deallocate
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.serve.scheduler.objects import GIB, claim, pod, read

SHARE = DeviceShare("gpu-0", Bytes(GIB), 250)
WHOLE = DeviceShare("gpu-1", Bytes(4 * GIB), 1000, whole=True)


def plan(planned: LivePod, *shares: DeviceShare, **more: Any) -> BindingPlan:
    return BindingPlan(
        planned, Placement(Request(planned.metadata.name, uid=planned.metadata.uid), "n", shares), **more
    )


def test_a_plain_pod_is_bound_by_one_write_that_names_it_by_uid() -> None:
    write = writes.bind(plan(pod("a", version=7)))
    assert (write.method, write.path) == ("POST", "/api/v1/namespaces/default/pods/a/binding")
    assert write.body["metadata"] == {"name": "a", "namespace": "default", "uid": "uid-a"}
    assert write.body["target"]["name"] == "n"


def test_a_pod_with_part_of_a_device_is_bound_at_its_version_and_with_its_placement() -> None:
    meta = writes.bind(plan(pod("a", version=7, mib=1024), SHARE)).body["metadata"]
    assert meta["resourceVersion"] == "7"
    assert json.loads(meta["annotations"][PLACEMENT]) == {"version": 1, "shares": [SHARE.to_json()]}
    assert writes.bind(plan(pod("a", version=7), SHARE), "9").body["metadata"]["resourceVersion"] == "9"


def test_a_pods_status_names_its_claim_at_its_version() -> None:
    write = writes.set_claim_status(plan(pod("a", version=7, mib=1024), SHARE))
    assert write.body["metadata"] == {"resourceVersion": "7"}
    assert write.body["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": "a-fairlead-uid-a",
        "requestMappings": [
            {"containerName": "main", "resourceName": "fairlead.dev/gpu-mem", "requestName": "shares"}
        ],
    }


@pytest.mark.parametrize(
    ("share", "capacity", "consumed"),
    [
        (SHARE, {"requests": {"memory": "1024Mi", "compute": "250"}}, {"memory": "1024Mi", "compute": "250"}),
        (WHOLE, None, None),
    ],
)
def test_a_claim_names_the_device_and_the_consumed_capacity(
    share: DeviceShare, capacity: Any, consumed: Any
) -> None:
    pending = pod("a", mib=1024)
    created = writes.create_claim(pending, [share]).body
    assert created["spec"]["devices"]["requests"][0]["exactly"].get("capacity") == capacity
    assert created["metadata"]["ownerReferences"][0]["uid"] == "uid-a"
    empty = claim("c", pending, version=3)
    write = writes.allocate(plan(pending, share), empty, {"shares": [share]})
    assert write.body["metadata"] == {"resourceVersion": "3"}
    (result,) = write.body["status"]["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"], result.get("consumedCapacity")) == ("n", share.device, consumed)
    assert ("shareID" in result) is not share.whole
    assert write.body["status"]["reservedFor"] == [{"resource": "pods", "name": "a", "uid": "uid-a"}]


def test_the_shares_go_to_the_requests_of_named_claims_in_order() -> None:
    document = {
        "metadata": {"name": "c", "namespace": "default", "uid": "c"},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "one", "exactly": {"deviceClassName": "fairlead.dev"}},
                    {"name": "two", "exactly": {"deviceClassName": "fairlead.dev", "count": 2}},
                ]
            }
        },
    }
    shares = [DeviceShare(f"gpu-{number}", whole=True) for number in range(3)]
    named = read(seen.CLAIMS, document)
    assert writes.shares_by_request(plan(pod("a"), *shares, named_claims=(named,))) == [
        (named, {"one": shares[:1], "two": shares[1:]})
    ]


def test_a_second_pod_of_a_claim_is_only_added_to_its_users() -> None:
    allocated = claim("c", pod("a"), on="n", version=3)
    (written,) = writes.shares_by_request(plan(pod("b"), named_claims=(allocated,)))
    status = writes.allocate(plan(pod("b")), *written).body["status"]
    assert [each["name"] for each in status["reservedFor"]] == ["a", "b"]
    assert "allocation" not in status


def test_a_pods_own_claim_is_freed_and_deleted_at_its_version() -> None:
    own = claim("c", pod("a"), on="n", version=3)
    assert writes.remove_finalizer(own).body == {
        "metadata": {"uid": "c-c", "resourceVersion": "3", "finalizers": None}
    }
    assert writes.delete_claim(own) == Deallocate(
        "DELETE",
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c",
        {"preconditions": {"uid": "c-c", "resourceVersion": "3"}},
    )


def test_no_two_fencing_writes_are_the_same() -> None:
    first, second = (writes.fence_pod(pod("a"), 3, nonce) for nonce in ("x", "y"))
    assert first.body["status"] != second.body["status"]
    assert read(seen.PODS, {"status": dict(first.body["status"])}).leader_epoch == 3


def test_the_longest_pod_name_gives_a_valid_claim_name() -> None:
    name = writes.claim_name(pod("x" * 253))
    assert len(name) == 253
    assert name.endswith("x-fairlead-uid-xxxx")
