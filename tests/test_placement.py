"""Requests and decisions as people and programs read them."""

import json
import math
from dataclasses import fields, replace

import pytest

from fairlead.inventory import Accelerator, State
from fairlead.need import Need
from fairlead.placement import (
    Decision,
    DeviceState,
    Placement,
    Reason,
    Rejection,
    SuggestedChange,
    reason_text,
)
from fairlead.request import (
    Demand,
    Expectation,
    Gang,
    HostPort,
    LabelTerm,
    MatchOperator,
    Request,
    Selector,
    Taint,
    TaintEffect,
    Toleration,
    problems,
)
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Ops

LABELS = {"zone": "a", "cores": "8"}


@pytest.mark.parametrize(
    ("term", "holds"),
    [
        (LabelTerm("zone", MatchOperator.IN, ("a", "b")), True),
        (LabelTerm("zone", MatchOperator.IN, ("b",)), False),
        (LabelTerm("gone", MatchOperator.IN, ("a",)), False),
        (LabelTerm("zone", MatchOperator.NOT_IN, ("a",)), False),
        (LabelTerm("gone", MatchOperator.NOT_IN, ("a",)), True),
        (LabelTerm("zone", MatchOperator.EXISTS), True),
        (LabelTerm("gone", MatchOperator.EXISTS), False),
        (LabelTerm("gone", MatchOperator.DOES_NOT_EXIST), True),
        (LabelTerm("zone", MatchOperator.DOES_NOT_EXIST), False),
        (LabelTerm("cores", MatchOperator.GREATER, ("7",)), True),
        (LabelTerm("cores", MatchOperator.GREATER, ("8",)), False),
        (LabelTerm("cores", MatchOperator.LESS, ("9",)), True),
        (LabelTerm("zone", MatchOperator.LESS, ("9",)), False),
        (LabelTerm("cores", MatchOperator.LESS), False),
    ],
    ids=str,
)
def test_terms_compare_labels_as_kubernetes_does(term: LabelTerm, holds: bool) -> None:
    assert term.holds(LABELS) is holds
    assert Selector((term,)).selects(LABELS) is holds


def test_a_selector_of_nothing_selects_everything() -> None:
    assert Selector().selects({})
    assert str(Selector()) == "anything"
    assert str(Selector.of({"b": "2", "a": "1"})) == "a=1, b=2"


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("gpu", "t4"), True),
        (Toleration("gpu", "a10"), False),
        (Toleration("gpu", exists=True), True),
        (Toleration(exists=True), True),
        (Toleration("gpu", "t4", effect=TaintEffect.NO_SCHEDULE), True),
        (Toleration("gpu", "t4", effect=TaintEffect.NO_EXECUTE), False),
        (Toleration("cpu", exists=True), False),
    ],
)
def test_tolerations_cover_taints_as_kubernetes_does(toleration: Toleration, covers: bool) -> None:
    assert toleration.covers(Taint("gpu", "t4")) is covers


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, address="10.0.0.1"), HostPort(80, address="10.0.0.2"), False),
        (HostPort(80, address="10.0.0.1"), HostPort(80), True),
    ],
)
def test_ports_clash_on_one_address(one: HostPort, other: HostPort, clash: bool) -> None:
    assert one.clashes(other) is other.clashes(one) is clash


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (Request("a", cpu=-1), "cpu"),
        (Request("a", memory=Bytes(-1)), "memory"),
        (Request("a", memory=1.5), "memory"),  # type: ignore[arg-type]
        (Request("a", cpu=math.nan), "cpu"),  # type: ignore[arg-type]
        (Request("a", cpu=2**63), "cpu"),
        (Request("a", cpu=True), "cpu"),
        (Request("a", demand=Demand(-1)), "demand.count"),
        (Request("a", demand=Demand(1, memory=Bytes(0))), "demand.memory"),
        (Request("a", demand=Demand(1, memory=0.5)), "demand.memory"),  # type: ignore[arg-type]
        (Request("a", demand=Demand(0, memory=Bytes(1))), "demand.count"),
        (Request("a", demand=Demand(1, compute=1001)), "demand.compute"),
        (Request("a", demand=Demand(1, compute=0)), "demand.compute"),
        (Request("a", resources=(("x.io/y", -2),)), "resources[x.io/y]"),
        (Request("a", gang=Gang("g", 0)), "gang.size of g"),
        (Request("a", slo=math.nan), "slo"),
        (Request("a", slo=0), "slo"),
        (Request("a", estimates={"t4": Expectation(math.nan)}), "estimates[t4]"),
        (Request("a", estimates={"t4": Expectation(joules=-1)}), "estimates[t4]"),
    ],
)
def test_an_invalid_request_is_reported_by_its_field(request_: Request, field: str) -> None:
    assert [text.split(": ")[0] for text in problems(request_)] == [field]


def test_a_valid_request_has_no_problem() -> None:
    assert problems(Request("a", cpu=1, demand=Demand(2, compute=1000), slo=0.03)) == ()


def test_the_shape_is_what_decides_where_a_request_fits() -> None:
    one = Request("a", cpu=100, labels={"app": "x"}, priority=3)
    assert one.shape == replace(one, name="b", labels={}, priority=0).shape
    assert one.shape != replace(one, cpu=101).shape
    assert one.shape != replace(one, estimates={"t4": Expectation(0.1)}).shape
    assert one.shape != replace(one, need=Need.fixed(Bytes(1))).shape
    assert one.shape != replace(one, busy=0.5).shape
    assert one.shape != replace(one, correlated=(("n1", "gpu-0"),)).shape


def test_every_field_is_in_the_shape_or_known_not_to_be() -> None:
    """A new field of a request needs a decision: does it decide where the request fits on its own?"""
    identity = {"name", "namespace", "uid", "labels", "priority", "preempts", "gang"}
    inter_pod = {"pod_affinity", "pod_anti_affinity", "topology_spread", "ports"}
    shaped = {"cpu", "memory", "resources", "demand", "selector", "affinity", "preferences", "tolerations"}
    shaped |= {"slo", "estimates", "need", "busy", "correlated"}
    assert {each.name for each in fields(Request)} == identity | inter_pod | shaped
    assert len(fields(Demand)) == 8


def test_a_discovered_accelerator_becomes_a_device() -> None:
    found = Accelerator(
        "gpu-1", "t4", "T4", "nvidia", "gpu", State.USABLE, "", 1.0, ("t4",), "pci:0",
        memory=Bytes(16), peak={"fp16": Ops(1), "fp32": Ops(1)}, shareable=True,
    )  # fmt: skip
    device = DeviceState.of(found)
    assert replace(device, offered="") == DeviceState(
        "gpu-1", "t4", "nvidia", Bytes(16), precisions=("fp16", "fp32")
    )
    offered = json.loads(device.offered)
    assert (offered["driver"], offered["device"]["attributes"]["model"]) == ("fairlead.dev", {"string": "t4"})
    assert not DeviceState.of(replace(found, state=State.PRESENT, memory=None)).healthy


def test_a_refusal_reads_as_a_sentence() -> None:
    request = Request("resnet50", demand=Demand(1, memory=Bytes(3 << 30)))
    refused = Decision(
        request,
        "fairlead",
        among=7,
        rejections=(
            Rejection(Reason.DEVICE_MEMORY, "lack memory (need 3.1 GiB, most 2.0 GiB free)", 4),
            Rejection(Reason.PRECISION, "do not run fp16", 3),
        ),
        changes=(SuggestedChange("demand.memory", "ask for 2.0 GiB"),),
    )
    assert refused.sentence() == (
        "0 of 7 accelerators can take resnet50: 4 lack memory (need 3.1 GiB, most 2.0 GiB free), "
        "3 do not run fp16; smallest change that would fit: ask for 2.0 GiB"
    )
    assert refused.to_json()["rejections"][0]["reason"] == "accelerator-memory"


def test_a_placement_reads_as_a_sentence() -> None:
    request = Request("a")
    shares = (DeviceShare("gpu-0", Bytes(1 << 30), 250), DeviceShare("gpu-1", whole=True))
    decision = Decision(request, "fairlead", Placement(request, "n1", shares), victims=("default/b",))
    assert decision.sentence() == (
        "a goes to n1 (gpu-0, 1.0 GiB and 25 % of its compute, gpu-1, whole) once default/b is evicted"
    )
    unsure = replace(decision, unknown=("its latency on x is not known",))
    assert unsure.sentence() == f"{decision.sentence()}; its latency on x is not known"
    assert set(decision.to_json()) == {
        "name", "namespace", "policy", "placed", "node", "shares", "score", "among", "rejections", "victims",
        "changes", "sentence", "unknown",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "one"),
    [
        (
            "are held by others, and the pod takes whole accelerators",
            "is held by others, and the pod takes whole accelerators",
        ),
        ("do not run fp16", "does not run fp16"),
        (
            "are on nodes that have a taint that is not tolerated (a)",
            "is on a node that has a taint that is not tolerated (a)",
        ),
        ("cannot be shared", "cannot be shared"),
    ],
)
def test_a_reason_with_a_count_of_one_is_singular(text: str, one: str) -> None:
    assert reason_text(text, 1) == one
    assert reason_text(text, 2) == text
    assert Rejection(Reason.BUSY, text, 1).with_count() == f"1 {one}"
