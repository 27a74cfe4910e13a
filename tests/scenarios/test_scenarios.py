"""Scenarios: a cluster, workloads, and the expected placements or reasons.

Each file is read as a user's files are. The keys of `expect`:

    placed:   {pod: node, or node/device[,device]}
    refused:  {pod: {reasons: [...], says: part of the sentence, change: part of a change that would fit}}
    victims:  {pod: [ids of the evicted pods]}
    shares:   {pod: memory of each of its accelerators}
    apart:    [[pods on different accelerators]]
    on:       {node: number of the workloads}
    count:    number of placed workloads
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.cache.clusterfile import read_cluster
from fairlead.catalog import Catalog
from fairlead.expect.workloads import read_workloads
from fairlead.manifest.files.text import read_one
from fairlead.placement import Decision, Reason
from fairlead.units import parse_bytes
from fairlead.whatif.answer import answer

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
EXPECTATIONS = {"placed", "refused", "victims", "shares", "apart", "on", "count"}
KEYS = {"title", "cluster", "workloads", "policy", "preemption", "expect"}


def decided(scenario: dict[str, Any], folder: Path, catalog: Catalog) -> dict[str, Decision]:
    """Return the decisions of a scenario, through files as a user would write them."""
    for name in ("cluster", "workloads"):
        content = scenario[name]
        is_manifest = isinstance(content, list) and "kind" in content[0]
        short = {"workloads": content} if name == "workloads" else content
        text = yaml.safe_dump_all(content) if is_manifest else yaml.safe_dump(short)
        (folder / f"{name}.yaml").write_text(text)
    snapshot = read_cluster([str(folder / "cluster.yaml")], catalog)
    requests = read_workloads([str(folder / "workloads.yaml")], snapshot, catalog)
    policy = scenario.get("policy", "fairlead")
    decisions = answer(snapshot, requests, policy, preemption=scenario.get("preemption", True))
    return {each.request.name: each for each in decisions.decisions}


def place(decision: Decision, *, devices: bool) -> str:
    """Return the place of a decision as scenarios write it."""
    placed = decision.placement
    if placed is None:
        return f"nowhere: {decision.sentence()}"
    return (
        f"{placed.node}/{','.join(sorted(share.device for share in placed.shares))}"
        if devices
        else placed.node
    )


def check_refusal(decision: Decision, expected: dict[str, Any]) -> None:
    """Check a refusal against its expectation."""
    sentence = decision.sentence()
    assert not decision.placed, sentence
    if "reasons" in expected:
        assert {rejection.reason.value for rejection in decision.rejections} == set(expected["reasons"]), (
            sentence
        )
    assert expected.get("says", "") in sentence
    changes = [change.text for change in decision.changes]
    assert "change" not in expected or any(expected["change"] in text for text in changes), changes


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, tmp_path: Path, catalog: Catalog) -> None:
    _, scenario = read_one(str(path))
    expect = scenario["expect"]
    assert not set(scenario) - KEYS
    assert expect
    assert not set(expect) - EXPECTATIONS
    decisions = decided(scenario, tmp_path, catalog)
    for pod, where in expect.get("placed", {}).items():
        assert place(decisions[pod], devices="/" in where) == where
    for pod, refusal in expect.get("refused", {}).items():
        check_refusal(decisions[pod], refusal)
    for pod, victims in expect.get("victims", {}).items():
        assert sorted(decisions[pod].victims) == victims
    check_numbers(expect, decisions)


def check_numbers(expect: dict[str, Any], decisions: dict[str, Decision]) -> None:
    """Check shares, separation and counts against the expectation."""
    placed = [each.placement for each in decisions.values() if each.placement is not None]
    for pod, size in expect.get("shares", {}).items():
        placement = decisions[pod].placement
        assert placement is not None
        assert {share.memory for share in placement.shares} == {parse_bytes(size)}
    for group in expect.get("apart", []):
        places = [place(decisions[pod], devices=True) for pod in group]
        assert len(set(places)) == len(places), places
    for node, number in expect.get("on", {}).items():
        assert sum(each.node == node for each in placed) == number, [each.node for each in placed]
    assert len(placed) == expect.get("count", len(placed))
    if "refused" in expect and "count" not in expect:
        assert len(decisions) - len(placed) == len(expect["refused"])


def test_there_are_enough_scenarios() -> None:
    assert len(FILES) >= 40


def test_every_reason_has_a_scenario() -> None:
    reasons = {
        reason
        for path in FILES
        for refusal in read_one(str(path))[1]["expect"].get("refused", {}).values()
        for reason in refusal.get("reasons", [])
    }
    # Reported when files are read; known only to a live scheduler; known only where use is measured.
    elsewhere = {Reason.INVALID, Reason.QUOTA, Reason.CORRELATION}
    assert reasons == set(Reason) - elsewhere
