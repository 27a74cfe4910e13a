"""`fairlead explain pipeline` on a real API server: pods as the operator makes them, and a page of a run."""

import asyncio
import copy
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.pipeline.top_cluster import open_run
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import PODS, Kind
from fairlead.pipelineobjects.names import PAGES_PORT
from fairlead.serve.web.httpd import Response
from fairlead.serve.web.thread import serve_in_thread
from fairlead.settings import parse_address
from tests.cli.examples import Run
from tests.kinds import define_kind
from tests.labs import RealCluster
from tests.pipelineobjects.worlds import Cluster, pipeline
from tests.whatif.pipeline.worlds import by_host, run_status

NODE = "no-such-node"
PIPELINES = Kind.of("fairlead.dev", "v1alpha1", "pipelines", namespaced=True, name="Pipeline")
RUN = """pipeline: count
stages:
  - {name: camera, source: numbers, options: {rate: 200}}
  - {name: blur, run: "tests.pipeline.stages:slow"}
  - {name: log, sink: "null"}
edges:
  - {from: camera, to: blur, policy: drop_oldest, depth: 4}
  - {from: blur, to: log}
"""
Json = dict[str, Any]


@pytest.fixture
def served(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves the kind."""
    define_kind(real_cluster.api, "pipelines.yaml", PIPELINES)
    yield real_cluster

    async def drop() -> None:
        async with real_cluster.connect() as client:
            await client.delete_collection(PIPELINES, real_cluster.namespace)

    asyncio.run(drop())


def at(cluster: RealCluster) -> list[str]:
    """Return the options that name a cluster."""
    return ["--kubeconfig", str(cluster.api.kubeconfig), "-n", cluster.namespace]


def store(cluster: RealCluster, port: int, *, pending: str = "") -> None:
    """Store a Pipeline that an operator has reconciled, and its pods; one host may lack a node."""
    world = Cluster(pipeline(namespace=cluster.namespace))
    world.live()
    pods = by_host(world)
    for pod in pods.values():
        pod["spec"]["nodeName"] = NODE

    async def work() -> None:
        async with cluster.connect() as client:
            spec = {**world.resource, "metadata": {"name": "count", "namespace": cluster.namespace}}
            await client.create(
                PIPELINES, {key: spec[key] for key in ("apiVersion", "kind", "metadata", "spec")}
            )
            await client.patch_status(
                PIPELINES, "count", {"status": world.resource["status"]}, cluster.namespace
            )
            for host, pod in pods.items():
                await _create_pod(client, copy.deepcopy(pod), port, is_pending=host == pending)

    asyncio.run(work())


async def _create_pod(client: Client, pod: Json, port: int, *, is_pending: bool) -> None:
    for each in pod["spec"]["containers"][0]["ports"]:
        each["containerPort"] = port if each["containerPort"] == PAGES_PORT else each["containerPort"]
    pod["spec"]["schedulerName"] = "another"  # no scheduler of another test looks at it
    status = {**pod.pop("status"), "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    if is_pending:
        pod["spec"].pop("nodeName")
        status = {"phase": "Pending"}
    meta = pod["metadata"]
    await client.create(PODS.raw(), pod)
    await client.patch_status(PODS, meta["name"], {"status": status}, meta["namespace"])


@contextmanager
def run_page(document: Json) -> Iterator[int]:
    """Serve the status of a run, as the coordinator does; yield the port."""

    def page(path: str) -> Response:
        return Response(200, json.dumps(document).encode()) if path == "/status" else Response(404, b"no\n")

    with serve_in_thread(parse_address("127.0.0.1:0"), page) as where:
        yield where.port


@contextmanager
def real_run(folder: Path) -> Iterator[tuple[int, int]]:
    """Let a pipeline run whose sinks take frames; yield its process and the port of its pages."""
    file = folder / "count.yaml"
    file.write_text(RUN)
    command = [sys.executable, "-m", "fairlead", "pipeline", "run", str(file), "-q", "--metrics", "0"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        where = re.search(r"http://[^/]+:(\d+)/", child.stderr.readline())
        assert where is not None
        until = time.monotonic() + 300
        while not _flows(f"{where[0]}status"):
            assert time.monotonic() < until
            time.sleep(0.05)
        yield child.pid, int(where[1])
    finally:
        child.kill()
        child.communicate()


def _flows(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            status = json.loads(answer.read())
    except urllib.error.HTTPError:  # no status yet
        return False
    return bool(status["open"]) and all(stage["rate"] for stage in status["stages"])


def test_the_page_of_a_real_run_is_read(served: RealCluster, run: Run, tmp_path: Path) -> None:
    with real_run(tmp_path) as (process, port):
        store(served, port)
        code, out, err = run("explain", "pipeline", "count", "-o", "json", *at(served))
        assert code == 0, err
        report = json.loads(out)
        assert report["run_note"] == ""
        assert report["run"]["rate"] > 0
        assert report["run"]["edges"][0]["policy"] == "drop_oldest"
        assert [each["rate"] > 0 for each in report["stages"]] == [True] * 3
        assert run("explain", "pipeline", "count", *at(served))[0] == 0
        code, out, _ = run("pipeline", "top", "count", "-o", "json", *at(served))
        assert (code, json.loads(out)["pid"]) == (0, process)
        code, out, _ = run("pipeline", "top", "count", "--once", *at(served))
        assert code == 0
        assert "  -> blur  " in out


def test_a_run_that_does_not_answer_has_no_graph(served: RealCluster, run: Run) -> None:
    store(served, 1)
    code, _, err = run("pipeline", "top", "count", *at(served))
    assert code == 2
    assert "could not be reached" in err
    assert "fairlead explain pipeline count shows" in err
    assert run("pipeline", "top", "none", *at(served))[0] == 1
    code, _, err = run("pipeline", "top", *at(served))
    assert (code, "no pipeline is named" in err) == (2, True)


def test_a_graph_keeps_its_last_status_until_the_pipeline_is_deleted(served: RealCluster) -> None:
    config = str(served.api.kubeconfig)
    options = Namespace(name="count", namespace=served.namespace, kubeconfig=config, context=None)
    with run_page(run_status()) as port:
        store(served, port)
        status, read = open_run(options)
        assert status["pipeline"] == "count"
        again = read()
        assert again == status
    with pytest.raises(ConnectionError, match="could not be reached"):
        read()

    async def drop() -> None:
        async with served.connect() as client:
            await client.delete(PIPELINES, "count", served.namespace)

    asyncio.run(drop())
    assert read() is None


def test_a_pipeline_is_explained_by_its_resource_its_pods_and_its_run(served: RealCluster, run: Run) -> None:
    with run_page(run_status(bottleneck="blur")) as port:
        store(served, port)
        code, out, err = run("explain", "pipeline", "count", "-o", "json", *at(served))
        assert code == 0, err
        report = json.loads(out)
        assert report["sentence"] == f"{served.namespace}/count runs: 25.0 frames/s, limited by blur"
        assert report["run"]["source_rate"] == 25
        assert [each["ready"] for each in report["pods"]] == [True] * 3
        name = f"{served.namespace}/count"
        code, out, _ = run("explain", "pipeline", name, *at(served)[:2])
        assert code == 0
        assert f"the spec states host edge; node {NODE}" in out
        assert f"node {NODE}, with edge, local, server, is not in the cluster" in out


def test_a_pod_without_a_node_is_explained_as_explain_pod_does(served: RealCluster, run: Run) -> None:
    store(served, 1, pending="server")
    code, out, _ = run("explain", "pipeline", "count", "-o", "json", *at(served))
    assert code == 0  # the status of the resource is the operator's
    report = json.loads(out)
    (explained,) = [each["explanation"] for each in report["pods"] if each["explanation"]]
    assert (explained["state"], explained["scheduler"]) == ("waiting", "another")
    assert any(explained["sentence"] in each["text"] for each in report["findings"])
    assert "could not be reached" in report["run_note"]
    code, out, _ = run("explain", "pipeline", "count", *at(served))
    assert f"{explained['namespace']}/{explained['name']}: {explained['sentence']}" in out
    code, out, _ = run("explain", explained["name"], "-o", "json", *at(served))
    assert (code, json.loads(out)[0]["sentence"]) == (1, explained["sentence"])


def test_a_pod_may_be_called_pipeline(served: RealCluster, run: Run) -> None:
    code, _, err = run("explain", "pipeline", *at(served))
    assert (code, f"there is no pod {served.namespace}/pipeline" in err) == (2, True)


def test_what_cannot_be_explained_is_named(served: RealCluster, run: Run, tmp_path: Path) -> None:
    code, _, err = run("explain", "pipeline", "none", *at(served))
    assert (code, f"no pipeline {served.namespace}/none" in err) == (1, True)
    code, _, err = run("explain", "web", "count", *at(served))
    assert (code, "web count: two names" in err) == (2, True)
    code, _, err = run("explain", "pipeline", "count", "--decision", "x.json")
    assert (code, "a file of decisions has no pipelines" in err) == (2, True)
    config = tmp_path / "away.yaml"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n"
    )
    assert run("explain", "pipeline", "count", "--kubeconfig", str(config))[0] == 3
