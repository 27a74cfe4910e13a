"""How a pod of a live cluster stands, by what the pod itself and its scheduler say."""

import json
from typing import Any

import pytest

from fairlead import keys
from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import Lease, LeaseSpec
from fairlead.keys import PLACEMENT
from fairlead.placement import PLACEMENTS, DeviceShare
from fairlead.units import Bytes
from fairlead.whatif import pod_status
from fairlead.whatif.leader import Leader, NoAnswer, _directly, _read
from tests.serve.scheduler.objects import claim, pod

GIB = 1 << 30
NOTE = PLACEMENTS.encode((DeviceShare("gpu-1", Bytes(GIB)),))
LEADER = Leader("me", "fairlead", "127.0.0.1:1", "")


def answer(**more: Any) -> bytes:
    """Return what a leader says."""
    told = {"name": "a", "namespace": "default", "placed": False, "sentence": "no", "leader": "me"}
    return json.dumps({**told, "rejections": [], "changes": [], "state": "unschedulable", **more}).encode()


def test_claims_go_before_the_note_of_the_binding() -> None:
    bound = pod("a", on="n", mib=1024, notes={PLACEMENT: NOTE})
    told = pod_status.final_status(bound, [])
    assert told is not None
    assert (told["state"], told["placed"], told["sentence"]) == ("bound", True, "a is on n (gpu-1, 1.0 GiB)")
    told = pod_status.final_status(bound, [claim("c", bound, on="n", mib=2048)])
    assert told is not None
    assert told["sentence"] == "a is on n (gpu-0, 2.0 GiB)"


@pytest.mark.parametrize(
    ("made", "state", "says"),
    [
        (pod("a", on="n", phase="Succeeded"), "ended", "a has ended (Succeeded) on n"),
        (pod("a", phase="Failed"), "ended", "never had a place"),
        (pod("a", schedulingGates=[{"name": "q"}]), "gated", "scheduling gates: q"),
    ],
)
def test_who_waits_for_nobodys_decision(made: Any, state: str, says: str) -> None:
    told = pod_status.final_status(made, [])
    assert told is not None
    assert told["state"] == state
    assert says in told["sentence"]


def test_who_waits_is_for_others_to_tell() -> None:
    assert pod_status.final_status(pod("a"), []) is None
    told = pod_status.status_from_condition(pod("a", schedulerName=""), "note")
    assert "waits for the scheduler default-scheduler" in told["sentence"]


def test_what_a_scheduler_of_another_version_says_is_taken_as_far_as_it_is_understood() -> None:
    said = {**json.loads(answer()), "queueing_hints": 3, "retry_in_seconds": 1.5, "score": 1, "odd": 1}
    told = pod_status.status_from_scheduler(pod("a"), said)
    assert (told["queueing_hints"], told["retry_in_seconds"], told["source"]) == ([], 1.5, "scheduler")
    assert "odd" not in told
    assert "leader" not in told


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
def test_what_is_no_answer_is_silence_with_a_reason(body: bytes, why: str) -> None:
    found = _read(body, LEADER)
    assert isinstance(found, NoAnswer)
    assert why in found.reason


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no such host:x", "[::1", ""])
def test_an_address_where_nobody_is_found_is_silence(address: str) -> None:
    assert isinstance(_directly(address, "explain/default/a/uid"), NoAnswer)


def test_a_lease_tells_who_leads_and_where() -> None:
    notes = {keys.LEADS_FOR: "fairlead", keys.LEADER_ADDRESS: "h:1", keys.LEADER_POD: "s/p:1"}
    lease = Lease(metadata=Metadata(annotations=notes), spec=LeaseSpec(holder_identity="me"))
    assert Leader.of(lease) == Leader("me", "fairlead", "h:1", "s/p:1")
