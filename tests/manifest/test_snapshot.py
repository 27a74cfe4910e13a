"""Snapshots: a written snapshot is read back unchanged, and an unknown key is rejected with its place."""

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cli.output.show import to_yaml
from fairlead.errors import ManifestError
from fairlead.manifest.files.snapshot import Snapshot, parse
from fairlead.placement import DeviceState, NodeState, Placement
from fairlead.request import (
    Demand,
    Expectation,
    Gang,
    HostPort,
    LabelTerm,
    MatchOperator,
    PodAffinityTerm,
    PreferredNodes,
    Request,
    Selector,
    Taint,
    TaintEffect,
    Toleration,
    TopologySpread,
)
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from fairlead.yamltext import parse_documents
from tests.strategies import needs

NAMES = st.text("abcxyz-09", min_size=1, max_size=6)
LABELS = st.dictionaries(st.sampled_from(["zone", "memory", "cpu", "a.b/c"]), NAMES, max_size=3)
SIZES = st.integers(0, 2**40).map(Bytes)
MATCHES = st.sampled_from(MatchOperator)
SELECTORS = st.builds(
    Selector, st.lists(st.builds(LabelTerm, NAMES, MATCHES, st.tuples(NAMES)), max_size=2).map(tuple)
)
TAINTS = st.builds(Taint, NAMES, NAMES, st.sampled_from(TaintEffect))
DEVICES = st.builds(DeviceState, NAMES, NAMES, NAMES, SIZES, st.integers(1, 4000), unified=st.booleans())
NODES = st.builds(
    NodeState,
    NAMES,
    st.integers(0, 10**6),
    SIZES,
    labels=LABELS,
    taints=st.tuples(TAINTS),
    devices=st.lists(DEVICES, max_size=3, unique_by=lambda each: each.id).map(tuple),
    resources=st.dictionaries(NAMES, st.integers(0, 9), max_size=2),
)
REQUESTS = st.builds(
    Request,
    NAMES,
    cpu=st.integers(0, 10**6),
    memory=SIZES,
    resources=st.tuples(st.tuples(NAMES, st.integers(0, 9))),
    demand=st.builds(
        Demand, st.integers(1, 8), SIZES.map(lambda size: Bytes(size + 1)), st.integers(1, 1000)
    ),
    labels=LABELS,
    priority=st.integers(-5, 5),
    gang=st.none() | st.builds(Gang, NAMES, st.integers(1, 9)),
    selector=SELECTORS,
    affinity=st.tuples(SELECTORS),
    preferences=st.tuples(st.builds(PreferredNodes, st.integers(1, 100), SELECTORS)),
    tolerations=st.tuples(st.builds(Toleration, NAMES, effect=st.none() | st.sampled_from(TaintEffect))),
    pod_affinity=st.tuples(
        st.builds(PodAffinityTerm, SELECTORS, NAMES, st.tuples(NAMES), st.integers(0, 100))
    ),
    topology_spread=st.tuples(st.builds(TopologySpread, SELECTORS, NAMES, st.integers(1, 5), st.booleans())),
    ports=st.tuples(st.builds(HostPort, st.integers(1, 65535))),
    slo=st.none() | st.floats(0.001, 10),
    estimates=st.dictionaries(
        NAMES, st.builds(Expectation, st.none() | st.floats(0, 9), memory=SIZES), max_size=2
    ),
    need=st.none() | needs(),
    busy=st.none() | st.floats(0, 1),
    correlated=st.lists(st.tuples(NAMES, NAMES), max_size=2).map(tuple),
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Draw a cluster with running and pending pods."""
    nodes = draw(st.lists(NODES, max_size=3, unique_by=lambda each: each.name))
    listed = draw(st.lists(REQUESTS, max_size=4, unique_by=lambda each: each.id))
    placements = []
    for request in listed[::2] if nodes else []:
        node = draw(st.sampled_from(nodes))
        soft = draw(st.booleans())
        shares = tuple(DeviceShare(each.id, Bytes(1), 2, soft=soft) for each in node.devices[:1])
        placements.append(Placement(request, node.name, shares))
    return Snapshot(tuple(nodes), tuple(placements), tuple(listed[1::2]), "2026-01-01T00:00:00Z", "lab")


@given(snapshots())
def test_a_snapshot_survives_the_round_trip(snapshot: Snapshot) -> None:
    document = snapshot.to_json()
    assert parse(json.loads(json.dumps(document)), "file") == snapshot
    assert parse(document, "file").to_json() == document  # whether a share is soft is no part of equality
    (read,) = parse_documents(to_yaml(document).encode())
    assert parse(read, "file") == snapshot


def valid() -> dict[str, Any]:
    device = DeviceState("gpu-0", "t4", "NVIDIA", Bytes(1 << 34))
    node = NodeState("server", 8000, Bytes(1 << 36), devices=(device,))
    held = Placement(
        Request("first", demand=Demand(1, Bytes(5))), "server", (DeviceShare("gpu-0", Bytes(5)),)
    )
    return Snapshot((node,), (held,), (Request("second", cpu=500),)).to_json()


def change(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a document with one value changed."""
    *steps, last = [int(each) if each.isdecimal() else each for each in path.split(".")]
    at: Any = document
    for step in steps:
        at = at[step]
    at[last] = value
    return document


def test_the_keys_of_a_placement_are_no_keys_of_a_request() -> None:
    assert not {"node", "shares"} & {field.name for field in fields(Request)}


def test_the_format_is_frozen() -> None:
    assert valid() == {
        "format": "fairlead-snapshot",
        "version": 2,
        "taken": "",
        "source": "",
        "nodes": [
            {
                "name": "server",
                "cpu_milli": 8000,
                "memory_bytes": 1 << 36,
                "devices": [{"id": "gpu-0", "model": "t4", "vendor": "NVIDIA", "memory_bytes": 1 << 34}],
            }
        ],
        "pods": [
            {
                "name": "first",
                "demand": {"count": 1, "memory_bytes": 5},
                "node": "server",
                "shares": [{"device": "gpu-0", "memory_bytes": 5}],
            }
        ],
        "pending": [{"name": "second", "cpu_milli": 500}],
    }


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", 1, "file: version: 1 is not read here"),
        ("version", "2", "file: version: '2' is not read here"),
        ("secrets", [], "file: unknown key 'secrets'"),
        ("nodes", {}, "file: nodes: {} is not a list"),
        ("nodes.0.cpu", 3, "file: nodes[0]: unknown key 'cpu'"),
        ("nodes.0.cpu_milli", "3", "file: nodes[0].cpu_milli: '3' is not a whole number"),
        ("nodes.0.cpu_milli", True, "file: nodes[0].cpu_milli: True is not a whole number"),
        (
            "nodes.0.devices.0.memory_bytes",
            float("nan"),
            "file: nodes[0].devices[0].memory_bytes: nan is not",
        ),
        (
            "nodes.0.devices.0.memory_bytes",
            1 << 70,
            "devices[0].memory_bytes: 1180591620717411303424 is out of range",
        ),
        ("nodes.0.labels", {"a": 1}, "file: nodes[0].labels.a: 1 is not a string"),
        ("nodes.0.taints", [{"key": "a", "effect": "No"}], "file: nodes[0].taints[0].effect: 'No'"),
        ("pods.0.node", "elsewhere", "file: pods[0].node: there is no node 'elsewhere'"),
        ("pods.0.shares.0.device", "gpu-9", "file: pods[0].shares[0].device: server has no 'gpu-9'"),
        ("pods.0.demand.count", -1, "file: pods[0]: demand.count: -1 is less than 0"),
        ("pending.0.name", "first", "file: pods: 'default/first' is defined twice"),
        ("pending.0.cpu_milli", -500, "file: pending[0]: cpu: -500 is less than 0"),
        ("pending.0", {"cpu_milli": 3}, "file: pending[0]: name: missing"),
    ],
)
def test_invalid_snapshots(path: str, value: Any, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse(change(valid(), path, value), "file")
    assert message in str(caught.value)
