"""`fairlead pipeline deploy --profile`: the plan that is shown, stored, and said by `status`."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.pipeline.profile.facts import PIPELINE_PROFILES
from tests.cli.examples import Run
from tests.cli.pipeline.test_deploy import PIPELINES
from tests.labs import RealCluster
from tests.ownedkinds import at, operated, serving_kind
from tests.pipelineobjects.planned import profile
from tests.pipelineobjects.worlds import Cluster

FILE = """
pipeline: people
stages:
  - {name: camera, source: numbers, options: {count: 9}, on: edge}
  - {name: detect, run: "code.py:detect"}
  - {name: count, run: "code.py:detect"}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}}
hosts:
  edge: {pod: {nodeSelector: {room: lab}}}
  server: {pod: {nodeSelector: {kubernetes.io/hostname: n2}}}
"""
NOWHERE = ("--kubeconfig", "/nowhere")
PLAN = [
    {"stage": "camera", "host": "edge"},
    {"stage": "detect", "host": "server"},
    {"stage": "count", "host": "local"},
    {"stage": "log", "host": "local"},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a pipeline's file, beside its code and its profile, people.json."""
    (tmp_path / "code.py").write_text("def detect(image):\n    return {}\n")
    (tmp_path / "people.json").write_text(PIPELINE_PROFILES.encode(replace(profile(), pipeline="people")))
    path = tmp_path / "people.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def served(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves the kind."""
    yield from serving_kind(real_cluster, "pipelines.yaml", PIPELINES)


def deploy(file: Path, *words: str) -> list[str]:
    """Return the words of a deployment with the profile."""
    return ["pipeline", "deploy", str(file), "--profile", str(file.with_suffix(".json")), *words]


def test_a_dry_run_shows_the_plan_and_its_cuts(file: Path, run: Run) -> None:
    code, out, err = run(*deploy(file, "--dry-run", *NOWHERE))
    assert code == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert ["detect", "server", "20", "ms"] in lines
    assert "By the profile: period 21.6 ms, latency 36.2 ms." in out
    assert "Bottleneck: server works on each frame for 21.6 ms" in out
    assert "note: no cluster was asked: every host counts as there" in out
    cuts = {tuple(line[:2]): line[2:4] for line in lines if len(line) > 4 and set(line[0]) <= set("ES-")}
    assert cuts["ESS-", "server"] == ["22.6", "ms"]
    assert cuts["EEE-", "-"] == ["67.4", "ms"]
    assert ["Pod", "people-server-a-65f87"] in lines


def test_programs_get_the_plan_of_a_dry_run(file: Path, run: Run) -> None:
    code, out, err = run(*deploy(file, "--dry-run", "-o", "json", *NOWHERE))
    assert code == 0, err
    document = json.loads(out)
    assert document["plan"] == PLAN
    placement = document["placement"]
    assert placement.pop("period_s") == pytest.approx(0.0216)
    assert placement.pop("latency_s") == pytest.approx(0.03621)
    assert {cut["cut"] for cut in placement.pop("cuts")} == {"ESSS", "EESS", "ESS-", "EES-", "EEE-"}
    assert placement == {"bottleneck": "server", "better": None, "unavailable": [], "nodes": "not asked"}
    assert document["pipeline"]["spec"]["plan"]["objective"] == "throughput"


def test_a_stated_link_counts_instead_of_the_profile(file: Path, run: Run) -> None:
    words = ("--link", "edge->server=1Mb/s", "--link", "edge->local=1Mb/s", "--max-latency", "100ms")
    code, out, _ = run(*deploy(file, "--dry-run", "-o", "json", *words, *NOWHERE))
    document = json.loads(out)
    assert code == 0
    assert document["plan"][1] == {"stage": "detect", "host": "edge"}
    assert document["pipeline"]["spec"]["plan"]["maxLatency"] == "100ms"


def test_a_dry_run_asks_the_cluster_for_its_nodes(served: RealCluster, file: Path, run: Run) -> None:
    nowhere = f"nowhere-{served.namespace}"
    pinned = FILE.replace('detect"}', 'detect", on: server}')  # a plan needs no node that others have made
    file.write_text(pinned.replace("hostname: n2", f"hostname: {nowhere}"))
    code, out, err = run(*deploy(file, "--dry-run", "-o", "json", *at(served)))
    assert code == 0, err
    placement = json.loads(out)["placement"]
    assert placement["nodes"] == "asked"
    reasons = {each["host"]: each["reason"] for each in placement["unavailable"]}
    assert reasons["server"] == f"no node has the labels kubernetes.io/hostname={nowhere}"


def test_the_operator_says_the_plan(served: RealCluster, file: Path, run: Run) -> None:
    with operated(served, PIPELINES, Cluster):
        code, out, err = run(*deploy(file, "--wait", *at(served)))
        assert code == 0, err
        assert "Plan: period 21.6 ms, latency 36.2 ms by the profile, limited by server." in out
        code, out, _ = run("pipeline", "status", "people", "-o", "json", *at(served))
        assert code == 0
        status = json.loads(out)
        assert status["plan"]["bottleneck"] == "server"
        assert {each["name"]: each["stages"] for each in status["hosts"]} == {
            "edge": ["camera"],
            "server": ["detect"],
            "local": ["count", "log"],
        }
        code, out, _ = run(*deploy(file, "-o", "json", *at(served)))
        assert (code, json.loads(out)["change"]) == (0, "unchanged")
        assert run("pipeline", "deploy", str(file), "--wait", *at(served))[0] == 0
        code, out, _ = run("pipeline", "status", "people", "-o", "json", *at(served))
        assert json.loads(out)["plan"] is None


def other_name(body: dict[str, Any]) -> None:
    body["pipeline"] = "bright"


def no_stage(body: dict[str, Any]) -> None:
    del body["edges"][1], body["stages"][2]


REFUSED: dict[str, tuple[Any, tuple[str, ...], int, str]] = {
    "the profile of another pipeline": (other_name, (), 2, "a profile of pipeline bright, not of people"),
    "a profile without a stage": (no_stage, (), 2, "the profile has no edge detect->count: make a new one"),
    "no plan": (None, ("--max-latency", "5ms"), 1, "no plan keeps maxLatency 0.005s: the smallest possible"),
    "no time": (None, ("--max-latency", "soon"), 2, "--max-latency soon"),
    "no such machine": (None, ("--link", "edge->sever=1Mb/s"), 2, "no machine is 'sever'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_planned_is_not_stored(file: Path, run: Run, case: str) -> None:
    edit, words, expected, message = REFUSED[case]
    path = file.with_suffix(".json")
    body = json.loads(path.read_text())
    if edit is not None:
        edit(body)
    path.write_text(json.dumps(body))
    code, out, err = run(*deploy(file, *words, *NOWHERE))
    assert (code, out) == (expected, "")
    assert message in err


@pytest.mark.parametrize(
    "words", [("--objective", "latency"), ("--max-latency", "1s"), ("--link", "a->b=1Mb/s")]
)
def test_wishes_without_a_profile_are_refused(file: Path, run: Run, words: tuple[str, ...]) -> None:
    code, _, err = run("pipeline", "deploy", str(file), "--dry-run", *words)
    assert code == 2
    assert "add --profile PROFILE" in err


def test_a_profile_needs_hosts(file: Path, run: Run) -> None:
    file.write_text(FILE[: FILE.index("hosts:")].replace(", on: edge", ""))
    code, _, err = run(*deploy(file, "--dry-run", *NOWHERE))
    assert code == 2
    assert "there are no hosts to choose from" in err
