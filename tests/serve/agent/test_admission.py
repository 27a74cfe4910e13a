"""The pod being admitted: it requests exactly this number of units and holds none of them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fairlead.cluster.objects import Pod
from fairlead.keys import PLACEMENT
from fairlead.kubelet.podresources import KubeletPod
from fairlead.placement import PLACEMENTS
from fairlead.serve.agent.admission import PodRequest, candidates, pod_request, same_accelerators
from fairlead.share import DeviceShare
from fairlead.units import Bytes

MEMORY = "fairlead.dev/gpu-mem"
NONE: frozenset[str] = frozenset()
HELD = frozenset({MEMORY})


def requests(uid: str, admitted_before: bool = False, on: str | None = None, **sizes: int) -> PodRequest:
    """Return a pod whose containers request these amounts; `early` is an init container that ends."""
    units = {name: {MEMORY: size} for name, size in sizes.items()}
    return PodRequest(
        uid, units, frozenset({"early"}), admitted_before, None if on is None else (DeviceShare(on),)
    )


def listed(name: str, **held: frozenset[str]) -> KubeletPod:
    return KubeletPod("default", name, held)


WAITS, HAS = listed("a", main=NONE), listed("a", main=HELD)
ROWS: dict[
    str, tuple[list[KubeletPod], dict[str, PodRequest], set[tuple[str, str]], list[tuple[str, str]]]
] = {
    "a container that holds nothing": ([WAITS], {"a": requests("a", main=5)}, set(), [("a", "main")]),
    "not a container that holds its units": ([HAS], {"a": requests("a", main=5)}, set(), []),
    "not a container that requests another size": ([WAITS], {"a": requests("a", main=6)}, set(), []),
    "not a pod that requests nothing": ([WAITS], {"a": PodRequest("a")}, set(), []),
    "not a pod that the API server does not have": ([WAITS], {}, set(), []),
    "the second container": (
        [listed("a", main=HELD, side=NONE)],
        {"a": requests("a", main=5, side=5)},
        {("a", "main")},
        [("a", "side")],
    ),
    "an init container before the others": (
        [WAITS],
        {"a": requests("a", early=5, main=5)},
        set(),
        [("a", "early"), ("a", "main")],
    ),
    "the others after it": (
        [WAITS],
        {"a": requests("a", early=5, main=5)},
        {("a", "early")},
        [("a", "main")],
    ),
    "not a pod that was admitted before": (
        [WAITS, listed("b", main=NONE)],
        {"a": requests("a", admitted_before=True, main=5), "b": requests("b", main=5)},
        set(),
        [("b", "main")],
    ),
    "not a pod that was refused before": (
        [WAITS, listed("b", main=NONE)],
        {"a": requests("a", main=5), "b": requests("b", main=5)},
        {("a", "main")},
        [("b", "main")],
    ),
    "a pod that was admitted before, if there is no other": (
        [WAITS],
        {"a": requests("a", admitted_before=True, main=5)},
        set(),
        [("a", "main")],
    ),
}


@pytest.mark.parametrize(("listed_pods", "pod_requests", "answered", "expected"), ROWS.values(), ids=ROWS)
def test_the_candidates_are_the_pods_that_may_be_admitted_next(
    listed_pods: list[KubeletPod],
    pod_requests: Mapping[str, PodRequest],
    answered: set[tuple[str, str]],
    expected: list[tuple[str, str]],
) -> None:
    known = {("default", name): each for name, each in pod_requests.items()}
    found = candidates(listed_pods, known, MEMORY, 5, answered)
    assert [each.key for each in found] == expected


def test_candidates_conflict_only_where_different_accelerators_were_chosen() -> None:
    listed_pods = [listed(name, main=NONE) for name in "ab"]

    def both(one: str | None, other: str | None) -> bool:
        known = {
            ("default", "a"): requests("a", on=one, main=5),
            ("default", "b"): requests("b", on=other, main=5),
        }
        return same_accelerators(candidates(listed_pods, known, MEMORY, 5, ()))

    assert [both("x", "x"), both(None, None), same_accelerators([])] == [True, True, True]
    assert [both("x", "y"), both("x", None)] == [False, False]


def pod(placement: str | None = None, node: str = "n1", **status: Any) -> Pod:
    limits = {MEMORY: "2k", "nvidia.com/gpu": "1"}
    spec = {
        "nodeName": node,
        "initContainers": [{"name": "early"}, {"name": "side", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}],
    }
    annotations = {} if placement is None else {PLACEMENT: placement}
    return msgspec.convert(
        {"metadata": {"uid": "u", "annotations": annotations}, "spec": spec, "status": status}, Pod
    )


def test_a_pod_request_has_units_init_containers_and_chosen_shares() -> None:
    share = DeviceShare("gpu-0", Bytes(1 << 20), 0)
    placement = PLACEMENTS.encode((share,))
    assert pod_request(pod(placement), "n1") == PodRequest(
        "u", {"main": {MEMORY: 2000}}, frozenset({"early"}), False, (share,)
    )
    assert pod_request(pod(placement, node="n2"), "n1") == PodRequest("u")
    assert pod_request(pod(), "n1").shares is None
    assert pod_request(pod("nonsense"), "n1").shares == ()
    assert not pod_request(pod("nonsense"), "n1").newer
    assert pod_request(pod('{"version":2}'), "n1").newer.startswith("placement format 2")
    assert pod_request(pod(startTime="2026-01-01T00:00:00Z"), "n1").admitted_before
    assert pod_request(pod(phase="Failed"), "n1").admitted_before
    assert not pod_request(pod(phase="Pending"), "n1").admitted_before
    mapping = [{"containerName": "main", "resourceName": MEMORY, "requestName": "shares"}]
    by_claim = pod(placement, extendedResourceClaimStatus={"requestMappings": mapping})
    assert pod_request(by_claim, "n1").units_by_container == {}
