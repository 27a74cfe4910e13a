"""The scheduling status of a pod, by the pod itself and by its scheduler."""

import json
from typing import Any

import pytest

from fairlead import keys
from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import Lease, LeaseSpec
from fairlead.keys import PLACEMENT
from fairlead.placement import PLACEMENTS
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from fairlead.whatif import pod_status
from fairlead.whatif.leader import Leader, _read
from fairlead.whatif.pod_program import NoAnswer, PodProgram
from tests.serve.scheduler.objects import claim, pod

GIB = 1 << 30
NOTE = PLACEMENTS.encode((DeviceShare("gpu-1", Bytes(GIB)),))
LEADER = Leader("me", "fairlead", "127.0.0.1:1", "")


def answer(**more: Any) -> bytes:
    """Return an answer of a leader."""
    report = {"name": "a", "namespace": "default", "placed": False, "sentence": "no", "leader": "me"}
    return json.dumps({**report, "rejections": [], "changes": [], "state": "unschedulable", **more}).encode()


def test_claims_take_precedence_over_the_placement_annotation() -> None:
    bound = pod("a", on="n", mib=1024, notes={PLACEMENT: NOTE})
    report = pod_status.final_status(bound, [])
    assert report is not None
    assert (report["state"], report["placed"], report["sentence"]) == (
        "bound",
        True,
        "a is on n (gpu-1, 1.0 GiB)",
    )
    report = pod_status.final_status(bound, [claim("c", bound, on="n", mib=2048)])
    assert report is not None
    assert report["sentence"] == "a is on n (gpu-0, 2.0 GiB)"


@pytest.mark.parametrize(
    ("live_pod", "state", "says"),
    [
        (pod("a", on="n", phase="Succeeded"), "ended", "a has ended (Succeeded) on n"),
        (pod("a", phase="Failed"), "ended", "never had a place"),
        (pod("a", schedulingGates=[{"name": "q"}]), "gated", "scheduling gates: q"),
    ],
)
def test_a_pod_that_needs_no_decision_has_a_final_status(live_pod: Any, state: str, says: str) -> None:
    report = pod_status.final_status(live_pod, [])
    assert report is not None
    assert report["state"] == state
    assert says in report["sentence"]


def test_a_pending_pod_has_no_final_status() -> None:
    assert pod_status.final_status(pod("a"), []) is None
    report = pod_status.status_from_condition(pod("a", schedulerName=""), "note")
    assert "waits for the scheduler default-scheduler" in report["sentence"]


def test_known_fields_of_another_version_are_kept() -> None:
    received = {**json.loads(answer()), "queueing_hints": 3, "retry_in_seconds": 1.5, "score": 1, "odd": 1}
    report = pod_status.status_from_scheduler(pod("a"), received)
    assert (report["queueing_hints"], report["retry_in_seconds"], report["source"]) == ([], 1.5, "scheduler")
    assert "odd" not in report
    assert "leader" not in report


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\xff\x00", "is not the leader"),
        (b"[" * 100_000, "is not the leader"),
        (b"[]", "is not the leader"),
        (answer(leader="other"), "is not the leader"),
        (answer(state="unknown"), "does not know the pod yet"),
        (answer(rejections=7), "does not report rejections"),
    ],
)
def test_an_invalid_answer_has_a_reason(body: bytes, why: str) -> None:
    result = _read(body, LEADER)
    assert isinstance(result, NoAnswer)
    assert why in result.reason


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no such host:x", "[::1", ""])
def test_an_unreachable_address_has_a_reason(address: str) -> None:
    assert isinstance(PodProgram("the leader", "", address).read_directly("explain/default/a/uid"), NoAnswer)


def test_a_lease_names_the_leader_and_its_address() -> None:
    notes = {keys.LEADS_FOR: "fairlead", keys.LEADER_ADDRESS: "h:1", keys.LEADER_POD: "s/p:1"}
    lease = Lease(metadata=Metadata(annotations=notes), spec=LeaseSpec(holder_identity="me"))
    assert Leader.of(lease) == Leader("me", "fairlead", "h:1", "s/p:1")
