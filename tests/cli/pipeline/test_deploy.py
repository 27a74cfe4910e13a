"""`fairlead pipeline deploy`, `status`, `drain` and `delete`, on a real API server beside an operator."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.cluster.kinds import CONFIG_MAPS, Kind
from tests.cli.examples import Run
from tests.labs import RealCluster
from tests.ownedkinds import at, operated, serving_kind
from tests.pipelineobjects.worlds import Cluster

PIPELINES = Kind.of("fairlead.dev", "v1alpha1", "pipelines", namespaced=True, name="Pipeline")
FILE = """
pipeline: bright
stages:
  - {name: camera, source: numbers, options: {count: 9}, on: edge}
  - {name: bright, run: "code.py:bright"}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}}
hosts:
  edge: {address: "10.0.0.5:7070", pod: {nodeSelector: {room: lab}}}
"""
CODE = "def bright(image):\n    return {'bright': int((image > 200).sum())}\n"
Json = dict[str, Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a pipeline's file with its code."""
    (tmp_path / "code.py").write_text(CODE)
    path = tmp_path / "bright.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def served(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves the kind."""
    yield from serving_kind(real_cluster, "pipelines.yaml", PIPELINES)


def stored_files(cluster: RealCluster) -> list[Json]:
    """Return the ConfigMaps with code."""

    async def read() -> list[Json]:
        async with cluster.connect() as client:
            listed = await client.list(
                CONFIG_MAPS.raw(), cluster.namespace, labels="fairlead.dev/pipeline-files=bright"
            )
            return [each.document() for each in listed.items]

    return asyncio.run(read())


def test_a_pipeline_lives_in_a_cluster(served: RealCluster, file: Path, run: Run) -> None:
    where = at(served)
    with operated(served, PIPELINES, Cluster):
        code, out, err = run("pipeline", "deploy", str(file), "--wait", *where)
        assert code == 0, err
        assert f"{served.namespace}/bright created" in out
        assert "2 of 2 pods are ready" in out
        code, out, _ = run("pipeline", "deploy", str(file), "--wait", "-o", "json", *where)
        assert (code, json.loads(out)["change"]) == (0, "unchanged")
        (files,) = stored_files(served)
        assert files["data"] == {"code.py": CODE}
        assert files["metadata"]["ownerReferences"][0]["kind"] == "Pipeline"
        code, out, _ = run("pipeline", "status", str(file), "-o", "json", *where)
        status = json.loads(out)
        assert code == 0
        assert [(each["name"], each["stages"]) for each in status["hosts"]] == [
            ("edge", ["camera"]),
            ("local", ["bright", "log"]),
        ]
        assert status["ready"]
        code, out, _ = run("pipeline", "drain", "bright", "--wait", *where)
        assert code == 0
        assert "suspended: no pod runs" in out
        assert run("pipeline", "status", "bright", *where)[0] == 1
        code, out, _ = run("pipeline", "deploy", str(file), "--wait", *where)
        assert (code, "2 of 2 pods are ready" in out) == (0, True)
        code, out, _ = run("pipeline", "delete", "bright", "--wait", "-o", "json", *where)
        assert (code, json.loads(out)["deleted"]) == (0, True)
    code, _, err = run("pipeline", "status", "bright", *where)
    assert (code, f"no pipeline {served.namespace}/bright" in err) == (1, True)


def test_changed_code_is_another_configmap_and_the_oldest_goes(
    served: RealCluster, file: Path, run: Run
) -> None:
    names = []
    for number in range(3):
        (file.parent / "code.py").write_text(CODE.replace("200", str(number)))
        assert run("pipeline", "deploy", str(file), *at(served))[0] == 0
        names.append({each["metadata"]["name"] for each in stored_files(served)})
    assert [len(each) for each in names] == [1, 2, 2]
    assert not names[0] & names[2]


def test_a_wait_without_an_operator_ends_with_1(served: RealCluster, file: Path, run: Run) -> None:
    code, out, _ = run("pipeline", "deploy", str(file), "--wait", "--timeout", "100ms", *at(served))
    assert code == 1
    assert "no operator has looked at it yet" in out


def test_what_the_operator_refuses_ends_a_wait_with_2(served: RealCluster, file: Path, run: Run) -> None:
    async def damage() -> None:
        async with served.connect() as client:
            patch = [{"op": "replace", "path": "/spec/stages/2/options", "value": {"path": "out.jsonl"}}]
            await client.patch(PIPELINES, "bright", patch, served.namespace, patch_type="json")

    assert run("pipeline", "deploy", str(file), *at(served))[0] == 0
    asyncio.run(damage())
    with operated(served, PIPELINES, Cluster):
        code, out, _ = run("pipeline", "drain", "bright", "--wait", "--timeout", "2s", *at(served))
    assert code == 1
    assert "stage log: path 'out.jsonl' is not in a folder that a pod can write to" in out


def test_a_dry_run_shows_the_plan_and_the_objects_and_asks_no_cluster(file: Path, run: Run) -> None:
    code, out, _ = run("pipeline", "deploy", str(file), "--dry-run", "--kubeconfig", "/nowhere")
    assert code == 0
    assert "default/bright would become 10 objects (nothing was stored)" in out
    code, out, _ = run("pipeline", "deploy", str(file), "--dry-run", "-n", "shop", "-o", "json")
    document = json.loads(out)
    assert document["plan"][0] == {"stage": "camera", "host": "edge"}
    kinds = [each["kind"] for each in document["objects"]]
    assert kinds == ["ConfigMap", *["Secret"] * 3, "ConfigMap", "Service", "NetworkPolicy", "Pod", "Pod"]
    assert {value for each in document["objects"][1:4] for value in each["data"].values()} == {""}
    assert {each["metadata"]["namespace"] for each in document["objects"]} == {"shop"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("on: edge", "on: egde", "no host is 'egde'"),
        ("/data/out.jsonl", "out.jsonl", "path 'out.jsonl' is not in a folder that a pod can write to"),
        ("pipeline: bright", "pipeline: Bright", "'Bright' cannot be the name of a Service"),
        ("source: numbers", "source: number", "no source 'number'"),
    ],
)
def test_a_file_that_must_be_changed_ends_with_2(
    file: Path, run: Run, old: str, new: str, message: str
) -> None:
    file.write_text(FILE.replace(old, new))
    code, _, err = run("pipeline", "deploy", str(file), "--dry-run")
    assert code == 2
    assert message in err


def test_a_file_that_no_stage_names_is_stored_when_it_is_included(file: Path, run: Run) -> None:
    (file.parent / "more").mkdir()
    (file.parent / "more" / "scene.json").write_text("{}")
    words = ("pipeline", "deploy", str(file), "--dry-run", "-o", "json")
    without, stored = (
        json.loads(run(*words, *more)[1])["objects"][0]["data"]
        for more in ((), ("--include", "more/scene.json"))
    )
    assert stored == {**without, "more..scene.json": "{}"}


@pytest.mark.parametrize("path", ["scenes.json", "../code.py", "/etc/hostname"])
def test_what_is_included_must_be_a_file_of_the_folder(file: Path, run: Run, path: str) -> None:
    code, _, err = run("pipeline", "deploy", str(file), "--dry-run", "--include", path)
    assert code == 2
    assert f"--include {path}: no such file below {file.parent}" in err


def test_code_that_cannot_be_loaded_here_is_a_note(file: Path, run: Run) -> None:
    (file.parent / "code.py").write_text("import nowhere_at_all\n")
    code, _, err = run("pipeline", "deploy", str(file), "--dry-run")
    assert code == 0
    assert "note: " in err
    assert "nowhere_at_all" in err


def test_a_cluster_that_is_away_ends_with_3(file: Path, run: Run, tmp_path: Path) -> None:
    config = tmp_path / "away.yaml"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n"
    )
    for verb in (("deploy", str(file)), ("status", "x"), ("drain", "x"), ("delete", "x")):
        assert run("pipeline", *verb, "--kubeconfig", str(config))[0] == 3
