"""`explain --local` decides as the scheduler does: volumes, quotas, nominations and terminating pods."""

from typing import Any

import msgspec
import pytest

from fairlead.catalog import Catalog
from fairlead.manifest.files.collect import FoundObjects, collect
from fairlead.manifest.types.live import LivePod
from fairlead.whatif.local import decide_locally
from tests.serve.scheduler.objects import device_slice, node, pod

KINDS = {"LivePod": "Pod", "Slice": "ResourceSlice"}
API = {"ResourceSlice": "resource.k8s.io/v1", "PodDisruptionBudget": "policy/v1"}


def document(item: Any) -> dict[str, Any]:
    """Return an object as the API server would print it."""
    kind = KINDS.get(type(item).__name__, type(item).__name__)
    return {"apiVersion": API.get(kind, "v1"), "kind": kind, **msgspec.to_builtins(item)}


def world(*items: Any) -> FoundObjects:
    """Return two nodes of two devices each, and the given objects."""
    objects = [node("a"), device_slice("a"), node("b"), device_slice("b"), *items]
    return collect(("list", item if isinstance(item, dict) else document(item)) for item in objects)


def of(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


def volume(name: str, claim: str, on: str) -> list[dict[str, Any]]:
    """Return a bound claim and its volume, which only one node reaches."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}
    spec = {
        "claimRef": {"namespace": "default", "name": claim},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    claim_spec = {"volumeName": name}
    bound = of("PersistentVolumeClaim", claim, spec=claim_spec, status={"phase": "Bound"})
    return [of("PersistentVolume", name, spec=spec), bound]


def using(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


@pytest.mark.parametrize("on", ["a", "b"])
def test_a_pod_goes_where_its_volume_is(catalog: Catalog, on: str) -> None:
    late = pod("late", mib=512, **using("data"))
    assert decide_locally(world(late, *volume("disk", "data", on)), catalog, late)["node"] == on


def test_a_pod_whose_volume_is_not_there_says_so(catalog: Catalog) -> None:
    late = pod("late", mib=512, **using("data"))
    decision = decide_locally(world(late, *volume("disk", "other", "a")), catalog, late)
    assert (decision["placed"], "no PersistentVolumeClaim default/data" in decision["sentence"]) == (
        False,
        True,
    )


def test_a_pod_is_held_to_the_quota_of_its_namespace(catalog: Catalog) -> None:
    hard = {"requests.fairlead.dev/gpu-mem": "512"}
    quota = {
        **of("ResourceQuota", "small", spec={"hard": hard}),
        "metadata": {"name": "small", "namespace": "default"},
    }
    late = pod("late", notes={"gpu-memory": "1024"})
    decision = decide_locally(world(late, quota), catalog, late)
    assert (decision["placed"], "exceeded quota: small" in decision["sentence"]) == (False, True)


def full(deleted: str = "") -> list[LivePod]:
    """Return pods that leave no device free; one may be terminating."""
    pods = [pod(f"old-{on}{number}", on=on, mib=4096) for on in "ab" for number in range(2)]
    return [
        msgspec.structs.replace(
            held,
            metadata=msgspec.structs.replace(
                held.metadata, deletion_timestamp="2026-01-01T00:00:00Z", deletion_grace_period_seconds=30
            ),
        )
        if held.metadata.name == deleted
        else held
        for held in pods
    ]


def test_no_pod_is_evicted_where_one_is_terminating(catalog: Catalog) -> None:
    late = pod("late", mib=4096, priority=9)
    decision = decide_locally(world(late, *full("old-b1")), catalog, late)
    assert (decision["node"], decision["victims"], decision["pending_victims"]) == (
        "b",
        [],
        ["default/old-b1"],
    )


def test_a_place_reserved_for_a_nominated_pod_is_not_free(catalog: Catalog) -> None:
    first = pod("first", mib=4096, priority=9)
    first = msgspec.structs.replace(
        first, status=msgspec.structs.replace(first.status, nominated_node_name="b")
    )
    late = pod("late", mib=4096, priority=9)
    decision = decide_locally(world(first, late, *full("old-b1")), catalog, late)
    assert (decision["node"], len(decision["victims"])) != ("b", 0)
