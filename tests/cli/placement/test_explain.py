"""`fairlead explain --decision`: one pod of a document, or all."""

import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import yaml

from fairlead.cli.placement.explanation_page import explanation_page
from tests.cli.examples import CLUSTER, WORKLOADS, Run


def test_a_decision_is_explained(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "decision.json"
    asked = ("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS)
    code, out, _ = run(*asked, "--explain", "-o", "json")
    assert code == 1
    file.write_text(out)
    code, brief, _ = run("explain", "embedder", "--decision", str(file))
    assert code == 1
    assert "default/embedder: 0 of 6 accelerators can take embedder" in brief
    assert "[accelerator-memory]" in brief
    assert "WHY NOT" not in brief
    code, long, _ = run("explain", "embedder", "-v", "--decision", str(file))
    assert "WHY NOT" in long
    code, placed, _ = run("explain", "trainer", "--decision", str(file))
    assert (code, placed) == (0, "default/trainer: trainer goes to server (a100-0, whole)\n")
    code, document, _ = run("explain", "--decision", str(file), "-o", "yaml")
    assert len(yaml.safe_load(document)) == 6
    _, explained, _ = run(*asked, "--explain")
    assert long.strip() in explained


def test_a_decision_is_read_from_the_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS, "-o", "json")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(out.encode())))
    assert run("explain", "reporter", "--decision", "-")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--decision", CLUSTER), "not a decision"),
        (("--decision", "none.json"), "none.json: No such file"),
    ],
)
def test_an_invalid_file_is_refused(run: Run, words: tuple[str, ...], message: str) -> None:
    code, out, err = run("explain", *words)
    assert (code, out) == (2, "")
    assert err.startswith("fairlead: ")
    assert message in err


def test_one_accelerator_is_counted_in_the_singular(run: Run, tmp_path: Path) -> None:
    cluster, workloads, file = (tmp_path / name for name in ("cluster.yaml", "work.yaml", "decision.json"))
    cluster.write_text(
        "nodes: [{name: n, cpu: 8, memory: 16GiB, devices: [t4]}]\n"
        "running: [{name: old, node: n, devices: [t4-0], gpu-memory: 1GiB}]\n"
    )
    workloads.write_text("workloads: [{name: alone, accelerators: 1}]\n")
    asked = ("schedule", "--cluster", str(cluster), "--workloads", str(workloads), "--explain", "-o", "json")
    file.write_text(run(*asked)[1])
    _, out, _ = run("explain", "alone", "-v", "--decision", str(file))
    assert "    1 is held by others, and the pod takes whole accelerators on 1 node [busy]" in out
    assert "t4-0    t4     is held by others" in out
    assert "are held" not in out


def test_a_waiting_pod_names_its_queue_state_its_victims_and_its_retries() -> None:
    explanation = {
        "namespace": "shop",
        "name": "trainer",
        "placed": False,
        "sentence": "0 of 2 accelerators can take trainer",
        "rejections": [],
        "changes": [],
        "state": "unschedulable",
        "since": "2026-11-16T08:00:00Z",
        "scheduler": "fairlead",
        "decided_seconds_ago": 3.2,
        "pending_victims": ["shop/web", "shop/cache"],
        "queueing_hints": ["NodeChanged", "PodDeleted"],
        "retry_in_seconds": 288.4,
        "note": "",
    }
    assert str(explanation_page(explanation, verbose=False)).splitlines()[1:] == [
        "  unschedulable since 2026-11-16T08:00:00Z, scheduler fairlead",
        "  decided 3 s ago",
        "  waits until these pods are gone: shop/web, shop/cache",
        "  tried again on: NodeChanged, PodDeleted",
        "  tried again in 288 s at the latest",
    ]
