"""Whose turn it is: the pod that wants just so many units and holds none of them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fairlead.cluster.objects import Pod
from fairlead.keys import PLACEMENT
from fairlead.kubelet.podresources import KubeletPod
from fairlead.placement import PLACEMENTS, DeviceShare
from fairlead.serve.agent.admission import PodRequest, candidates, pod_request, same_accelerators
from fairlead.units import Bytes

MEMORY = "fairlead.dev/gpu-mem"
NONE: frozenset[str] = frozenset()
HELD = frozenset({MEMORY})


def wants(uid: str, begun: bool = False, on: str | None = None, **sizes: int) -> PodRequest:
    """Return a pod whose containers want so much; `early` is an init container that ends."""
    units = {name: {MEMORY: size} for name, size in sizes.items()}
    return PodRequest(uid, units, frozenset({"early"}), begun, None if on is None else (DeviceShare(on),))


def listed(name: str, **held: frozenset[str]) -> KubeletPod:
    return KubeletPod("default", name, held)


WAITS, HAS = listed("a", main=NONE), listed("a", main=HELD)
ROWS: dict[
    str, tuple[list[KubeletPod], dict[str, PodRequest], set[tuple[str, str]], list[tuple[str, str]]]
] = {
    "who holds nothing": ([WAITS], {"a": wants("a", main=5)}, set(), [("a", "main")]),
    "not who holds it": ([HAS], {"a": wants("a", main=5)}, set(), []),
    "not who wants another size": ([WAITS], {"a": wants("a", main=6)}, set(), []),
    "not who wants nothing": ([WAITS], {"a": PodRequest("a")}, set(), []),
    "not whom nobody knows": ([WAITS], {}, set(), []),
    "the second container": (
        [listed("a", main=HELD, side=NONE)],
        {"a": wants("a", main=5, side=5)},
        {("a", "main")},
        [("a", "side")],
    ),
    "an init container before the others": (
        [WAITS],
        {"a": wants("a", early=5, main=5)},
        set(),
        [("a", "early"), ("a", "main")],
    ),
    "the others after it": ([WAITS], {"a": wants("a", early=5, main=5)}, {("a", "early")}, [("a", "main")]),
    "not who was let in before": (
        [WAITS, listed("b", main=NONE)],
        {"a": wants("a", admitted_before=True, main=5), "b": wants("b", main=5)},
        set(),
        [("b", "main")],
    ),
    "not who was refused before": (
        [WAITS, listed("b", main=NONE)],
        {"a": wants("a", main=5), "b": wants("b", main=5)},
        {("a", "main")},
        [("b", "main")],
    ),
    "who was let in before, if nobody else": (
        [WAITS],
        {"a": wants("a", admitted_before=True, main=5)},
        set(),
        [("a", "main")],
    ),
}


@pytest.mark.parametrize(("books", "wishes", "answered", "expected"), ROWS.values(), ids=ROWS)
def test_whose_turn_it_is(
    books: list[KubeletPod],
    wishes: Mapping[str, PodRequest],
    answered: set[tuple[str, str]],
    expected: list[tuple[str, str]],
) -> None:
    known = {("default", name): each for name, each in wishes.items()}
    found = candidates(books, known, MEMORY, 5, answered)
    assert [each.mark for each in found] == expected


def test_who_it_is_matters_only_where_different_things_were_chosen() -> None:
    books = [listed(name, main=NONE) for name in "ab"]

    def both(one: str | None, other: str | None) -> bool:
        known = {("default", "a"): wants("a", on=one, main=5), ("default", "b"): wants("b", on=other, main=5)}
        return same_accelerators(candidates(books, known, MEMORY, 5, ()))

    assert [both("x", "x"), both(None, None), same_accelerators([])] == [True, True, True]
    assert [both("x", "y"), both("x", None)] == [False, False]


def pod(note: str | None = None, node: str = "n1", **status: Any) -> Pod:
    limits = {MEMORY: "2k", "nvidia.com/gpu": "1"}
    spec = {
        "nodeName": node,
        "initContainers": [{"name": "early"}, {"name": "side", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}],
    }
    notes = {} if note is None else {PLACEMENT: note}
    return msgspec.convert(
        {"metadata": {"uid": "u", "annotations": notes}, "spec": spec, "status": status}, Pod
    )


def test_a_pod_is_read_as_far_as_it_matters() -> None:
    share = DeviceShare("gpu-0", Bytes(1 << 20), 0)
    note = PLACEMENTS.encode((share,))
    assert pod_request(pod(note), "n1") == PodRequest(
        "u", {"main": {MEMORY: 2000}}, frozenset({"early"}), False, (share,)
    )
    assert pod_request(pod(note, node="n2"), "n1") == PodRequest("u")
    assert pod_request(pod(), "n1").shares is None
    assert pod_request(pod("nonsense"), "n1").shares == ()
    assert not pod_request(pod("nonsense"), "n1").newer
    assert pod_request(pod('{"version":2}'), "n1").newer.startswith("placement format 2")
    assert pod_request(pod(startTime="2026-01-01T00:00:00Z"), "n1").admitted_before
    assert pod_request(pod(phase="Failed"), "n1").admitted_before
    assert not pod_request(pod(phase="Pending"), "n1").admitted_before
    mapping = [{"containerName": "main", "resourceName": MEMORY, "requestName": "shares"}]
    by_claim = pod(note, extendedResourceClaimStatus={"requestMappings": mapping})
    assert pod_request(by_claim, "n1").units_by_container == {}
