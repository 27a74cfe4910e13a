"""`fairlead schedule`: a table for people, a document for programs, and exit codes."""

import json
import os
import re
from pathlib import Path

import pytest

from fairlead.zoo.__main__ import main as zoo
from tests.cli.examples import CLUSTER, EXAMPLES, WORKLOADS, Run


def test_the_table(run: Run) -> None:
    code, out, _ = run("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS)
    assert code == 1
    head, *rows = out.splitlines()
    assert head.split() == ["POD", "NODE", "DEVICES", "SHARE", "PREDICTED"]
    assert any(row.split()[:5] == ["trainer", "server", "a100-0", "whole", "-"] for row in rows)
    assert "refused: 0 of 6 accelerators can take embedder: " in out


def test_the_exit_code_is_0_if_all_are_placed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "{name: small, gpu-memory: 1GiB, expected: {t4: {latency: 4ms}, a100: {latency: 1ms}}}"
    )
    code, out, _ = run(
        "schedule", "--cluster", CLUSTER, "--workloads", str(tmp_path / "w.yaml"), "--policy", "fastest"
    )
    assert code == 0
    assert out.splitlines()[1].split() == ["small", "server", "a100-0", "1.0", "GiB", "1", "ms"]


def test_without_a_cluster_workloads_go_to_this_machine(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("{name: small, cpu: 10m}")
    code, out, _ = run("schedule", "--workloads", str(tmp_path / "w.yaml"))
    assert code == 0
    assert out.splitlines()[1].split()[:2] == ["small", "here"]


def test_this_machine_may_join_a_cluster(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("{name: small, cpu: 10m, selector: {kubernetes.io/hostname: here}}")
    words = ("schedule", "--cluster", CLUSTER, "--workloads", str(tmp_path / "w.yaml"))
    assert run(*words)[0] == 1
    code, out, _ = run(*words, "--here")
    assert code == 0
    assert out.splitlines()[1].split()[:2] == ["small", "here"]


def test_a_node_named_here_conflicts_with_this_machine(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("nodes: [{name: here}]")
    code, _, err = run("schedule", "--cluster", str(tmp_path / "c.yaml"), "--here")
    assert code == 2
    assert "has a node 'here' already" in err


def test_nothing_to_place_is_an_error(run: Run) -> None:
    code, _, err = run("schedule")
    assert code == 2
    assert "nothing to place" in err


def test_the_demo_places_all_but_one(run: Run, tmp_path: Path) -> None:
    for file in (EXAMPLES / "demo").iterdir():
        (tmp_path / file.name).write_text(file.read_text())
    zoo([str(tmp_path)])
    files = ("--cluster", str(tmp_path / "fleet.yaml"), "--workloads", str(tmp_path / "apps.yaml"))
    code, out, _ = run("schedule", *files, "--here", "-o", "json")
    assert code == 1
    decisions = json.loads(out[out.index("{") :])["decisions"]
    nodes = {decision["name"]: decision["node"] for decision in decisions}
    assert nodes["doorbell"] == "gate"
    assert nodes["inspector"] == "server"
    assert nodes["thumbnails"] == "here"
    assert [name for name, node in nodes.items() if node is None] == ["lane-keeper"]
    (refused,) = [decision["sentence"] for decision in decisions if decision["node"] is None]
    assert re.search(
        r"too slow \(need 2 ms, best (\S+) ms expected\); smallest change that would fit: "
        r"allow \S+ ms instead of 2 ms; t4 is expected to take \1 ms, but has no room: 1 lacks memory \(",
        refused,
    ), refused


def test_replicas_are_refused_in_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("workloads: [{name: big, replicas: 3, gpu-memory: 900GiB}]")
    _, out, _ = run("schedule", "--cluster", CLUSTER, "--workloads", str(tmp_path / "w.yaml"))
    assert out.count("refused:") == 1
    assert "can take big-0 and 2 more like it: " in out


@pytest.mark.parametrize(
    ("policy", "key"), [("cbp+pp", "x"), ("fairlead-safe", "x"), ("fairlead-safe", "need")]
)
def test_a_policy_by_measured_use_says_that_files_have_none(
    run: Run, tmp_path: Path, policy: str, key: str
) -> None:
    need = ", need: 2GiB" if key == "need" else ""
    (tmp_path / "w.yaml").write_text(f"workloads: [{{name: pod, gpu-memory: 8GiB{need}}}]")
    asked = ("schedule", "--cluster", CLUSTER, "--workloads", str(tmp_path / "w.yaml"), "--policy", policy)
    code, out, errors = run(*asked)
    assert code == 0
    assert ("2.0 GiB" if need else "8.0 GiB") in out
    note = f"fairlead: policy {policy} goes by measured use; none is known here, so requests decide\n"
    assert errors == ("" if need else note)


def test_preemption_can_be_forbidden(run: Run, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "workloads: [{name: urgent, models: [t4], gpu-memory: 8GiB, priority: 9}]"
    )
    asked = ("schedule", "--cluster", CLUSTER, "--workloads", str(tmp_path / "w.yaml"))
    code, out, _ = run(*asked)
    assert code == 0
    assert "default/tracker is evicted to make room for urgent" in out
    assert run(*asked, "--no-preemption")[0] == 1


def test_a_snapshot_without_pending_pods(run: Run, tmp_path: Path) -> None:
    document = {"format": "fairlead-snapshot", "version": 2, "nodes": []}
    (tmp_path / "s.json").write_text(json.dumps(document))
    assert run("schedule", "--cluster", str(tmp_path / "s.json")) == (0, "no pending workloads\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("schedule", "--cluster", CLUSTER, "--workloads", "none.yaml"), "none.yaml: No such file"),
        (("schedule", "--cluster", os.sep, "--workloads", WORKLOADS), "/: not a file"),
        (
            ("schedule", "--cluster", CLUSTER, "--workloads", WORKLOADS, "--policy", "fairlaed"),
            "unknown policy 'fairlaed'",
        ),
        (("schedule", "--cluster", "-", "--workloads", "-"), "the standard input can be read once"),
        (("schedule", "--cluster", WORKLOADS, "--workloads", WORKLOADS), "neither a snapshot"),
    ],
)
def test_invalid_input_is_refused(run: Run, words: tuple[str, ...], message: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("fairlead: ")
    assert message in err


def test_no_pod_is_placed_on_an_unhealthy_gpu(run: Run, tmp_path: Path) -> None:
    gpu = {
        "id": "pci-0000-3b-00-0",
        "model": "t4",
        "vendor": "NVIDIA",
        "memory_mib": 15360,
        "shareable": True,
    }
    work = tmp_path / "w.yaml"
    work.write_text("{name: small, gpu-memory: 1GiB}")
    codes = []
    for flags in ({}, {"unhealthy": True, "reason": "the driver reported XID 79"}):
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "box",
                "annotations": {
                    "fairlead.dev/devices": json.dumps({"version": 1, "accelerators": [{**gpu, **flags}]})
                },
            },
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        }
        cluster = tmp_path / "c.json"
        cluster.write_text(json.dumps(node))
        code, out, _ = run("schedule", "--cluster", str(cluster), "--workloads", str(work))
        codes.append(code)
    assert codes == [0, 1]
    assert "not healthy" in out
