"""Small worlds: a cluster, workloads, and where they must go or why they cannot.

Each file is read as a user's files are. What it may expect:

    placed:   {pod: node, or node/device[,device]}
    refused:  {pod: {reasons: [...], says: part of the sentence, change: part of a change that would fit}}
    victims:  {pod: [who must go]}
    shares:   {pod: memory of each of its accelerators}
    apart:    [[pods on different accelerators]]
    on:       {node: how many of the workloads}
    count:    how many are placed
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
    """Ask the question of a scenario, through files as a user would."""
    for name in ("cluster", "workloads"):
        said = scenario[name]
        formal = isinstance(said, list) and "kind" in said[0]
        short = {"workloads": said} if name == "workloads" else said
        text = yaml.safe_dump_all(said) if formal else yaml.safe_dump(short)
        (folder / f"{name}.yaml").write_text(text)
    snapshot = read_cluster([str(folder / "cluster.yaml")], catalog)
    requests = read_workloads([str(folder / "workloads.yaml")], snapshot, catalog)
    policy = scenario.get("policy", "fairlead")
    found = answer(snapshot, requests, policy, preemption=scenario.get("preemption", True))
    return {each.request.name: each for each in found.decisions}


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
    """Hold a refusal against what is expected of it."""
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
    found = decided(scenario, tmp_path, catalog)
    for pod, where in expect.get("placed", {}).items():
        assert place(found[pod], devices="/" in where) == where
    for pod, refusal in expect.get("refused", {}).items():
        check_refusal(found[pod], refusal)
    for pod, victims in expect.get("victims", {}).items():
        assert sorted(found[pod].victims) == victims
    check_numbers(expect, found)


def check_numbers(expect: dict[str, Any], found: dict[str, Decision]) -> None:
    """Hold shares, neighbourhoods and counts against what is expected of them."""
    placed = [each.placement for each in found.values() if each.placement is not None]
    for pod, size in expect.get("shares", {}).items():
        placement = found[pod].placement
        assert placement is not None
        assert {share.memory for share in placement.shares} == {parse_bytes(size)}
    for group in expect.get("apart", []):
        places = [place(found[pod], devices=True) for pod in group]
        assert len(set(places)) == len(places), places
    for node, number in expect.get("on", {}).items():
        assert sum(each.node == node for each in placed) == number, [each.node for each in placed]
    assert len(placed) == expect.get("count", len(placed))
    if "refused" in expect and "count" not in expect:
        assert len(found) - len(placed) == len(expect["refused"])


def test_there_are_enough_of_them() -> None:
    assert len(FILES) >= 40


def test_every_reason_has_its_scenario() -> None:
    told = {
        reason
        for path in FILES
        for refusal in read_one(str(path))[1]["expect"].get("refused", {}).values()
        for reason in refusal.get("reasons", [])
    }
    elsewhere = {Reason.INVALID, Reason.QUOTA}  # told when files are read; known to a live scheduler alone
    assert told == set(Reason) - elsewhere
