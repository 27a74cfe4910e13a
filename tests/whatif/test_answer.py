"""Queries on a snapshot: decisions in the order of the requests, suggested changes, and details."""

import json
from dataclasses import replace

import pytest

from fairlead.errors import ManifestError
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import DeviceState, NodeState, Placement
from fairlead.request import Demand, Expectation, Request
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from fairlead.whatif.answer import answer
from fairlead.whatif.document import DecisionDocument, find_decisions, parse

GIB = 1 << 30
T4 = DeviceState("t4-0", "t4", "NVIDIA", Bytes(16 * GIB))
NODE = NodeState(
    "server",
    8000,
    Bytes(64 * GIB),
    devices=(T4, replace(T4, id="t4-1"), replace(T4, id="t4-2", healthy=False)),
)
HELD = Placement(
    Request("first", demand=Demand(1, Bytes(15 * GIB))), "server", (DeviceShare("t4-0", Bytes(15 * GIB)),)
)
WORLD = Snapshot((NODE,), (HELD,))


def ask(*requests: Request, detailed: bool = False) -> DecisionDocument:
    return answer(WORLD, requests, "binpack", detailed=detailed)


def share(name: str, gib: int, **more: int) -> Request:
    return Request(name, demand=Demand(1, Bytes(gib * GIB)), **more)  # type: ignore[arg-type]  # cpu and priority


def test_decisions_have_the_order_of_the_requests() -> None:
    document = ask(share("low", 1), share("high", 1, priority=9))
    assert [decision.request.name for decision in document.decisions] == ["low", "high"]
    assert not document.refused


def test_refusals_carry_changes_and_details() -> None:
    document = ask(share("big", 20), detailed=True)
    (refused,) = document.refused
    assert refused.changes
    details = {each.device: (each.reason, each.text) for each in document.details[refused.request.id]}
    assert details == {
        "t4-0": ("accelerator-memory", "lacks memory (need 20 GiB, most 1.0 GiB free)"),
        "t4-1": ("accelerator-memory", "lacks memory (need 20 GiB, most 16 GiB free)"),
        "t4-2": ("unhealthy", "is not healthy"),
    }


def test_details_are_of_nodes_if_no_accelerator_is_requested() -> None:
    document = ask(Request("greedy", cpu=99_000), detailed=True)
    (detail,) = document.details["default/greedy"]
    assert (detail.node, detail.device, detail.reason) == ("server", "", "cpu")


def test_an_accelerator_that_suffices_without_enough_others() -> None:
    document = ask(Request("pair", demand=Demand(2)), detailed=True)
    texts = {each.device: each.text for each in document.details["default/pair"]}
    assert texts["t4-1"] == "suffices, but too few others on the node do"


def test_the_prediction_is_that_of_the_allocated_device() -> None:
    request = Request("net", demand=Demand(1), estimates={"t4": Expectation(0.004, memory=Bytes(GIB))})
    document = ask(request)
    assert document.predicted(document.decisions[0]) == 0.004
    assert document.models(document.decisions[0]) == ["t4"]


def test_the_document_is_frozen() -> None:
    document = ask(share("small", 1), share("big", 20), detailed=True).to_json()
    assert list(document) == ["format", "version", "policy", "placed", "refused", "decisions"]
    assert (document["format"], document["version"]) == ("fairlead-decision", 1)
    assert (document["placed"], document["refused"]) == (1, 1)
    small, big = document["decisions"]
    shared = ["name", "namespace", "policy", "placed", "node", "shares", "score", "among", "rejections"]
    assert list(small) == [
        *shared,
        "victims",
        "changes",
        "sentence",
        "unknown",
        "models",
        "predicted_seconds",
    ]
    assert list(big) == [*small, "devices"]
    assert list(big["devices"][0]) == ["node", "device", "model", "reason", "text"]
    assert parse(json.loads(json.dumps(document)), "file") == document["decisions"]


def test_decisions_are_found_by_pod_and_controller_name() -> None:
    decisions = ask(share("web-0", 1), share("web-1", 1), share("db", 1)).to_json()["decisions"]
    assert [find_decision["name"] for find_decision in find_decisions(decisions, "web", "file")] == [
        "web-0",
        "web-1",
    ]
    assert [find_decision["name"] for find_decision in find_decisions(decisions, "default/db", "file")] == [
        "db"
    ]
    with pytest.raises(ManifestError) as caught:
        find_decisions(decisions, "wbe-0", "file")
    assert "did you mean web-0" in caught.value.hint


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "not a decision"),
        ({"format": "fairlead-snapshot"}, "not a decision"),
        ({"format": "fairlead-decision", "version": 2}, "version: 2 is not read here"),
        ({"format": "fairlead-decision", "version": 1}, "decisions: not a list"),
        ({"format": "fairlead-decision", "version": 1, "decisions": [{}]}, "decisions[0].name: missing"),
        ({"format": "fairlead-decision", "version": 1, "decisions": [3]}, "decisions[0].name: missing"),
    ],
)
def test_a_document_that_is_not_a_decision_is_refused(document: object, says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse(document, "file")
    assert says in str(caught.value)
