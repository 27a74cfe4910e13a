"""A Pipeline with two hosts as real pods: mutual TLS, new code while it runs, a new operator, a lost host."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from fairlead.cluster.kinds import PODS
from tests.cli.examples import Run
from tests.e2e.api import wait_for
from tests.labs import RealNode
from tests.pipelineobjects.deployed import SECRETS, DeployedPipeline, kind_installed
from tests.pipelineobjects.operated import OperatorProcess, operator

FILE = """
pipeline: bright
stages:
  - {name: camera, source: numbers, options: {shape: [72, 128, 3], rate: 30}, on: edge, on_error: restart}
  - {name: bright, run: "pkg.stages:bright", on: server, in: Image, out: Record, on_error: restart}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}, on_error: restart}
hosts:
  edge: {pod: {}}
  server: {pod: {resources: {limits: {memory: 512Mi}}}}
cluster: {schedulerName: default-scheduler, imagePullPolicy: Never, update: {observe: 0s}}
"""
CODE = "def bright(image):\n    return {'mark': MARK, 'first': int(image[0, 0, 0])}\n"


@pytest.fixture
def site(real_node: RealNode, node_namespace: str, tmp_path: Path) -> Iterator[DeployedPipeline]:
    """Return a namespace of a node that has the image, and the kind."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "bright.yaml").write_text(FILE)
    with kind_installed(real_node):
        yield DeployedPipeline(real_node, node_namespace)


def test_a_pipeline_of_two_hosts_lives_as_pods(
    site: DeployedPipeline, real_node: RealNode, node_namespace: str, tmp_path: Path, run: Run
) -> None:
    where = ("--kubeconfig", str(real_node.kubeconfig), "-n", node_namespace, "--wait", "--timeout", "240s")
    file = str(tmp_path / "bright.yaml")

    def deploy(mark: int) -> None:
        (tmp_path / "pkg" / "stages.py").write_text(CODE.replace("MARK", str(mark)))
        code, out, err = run("pipeline", "deploy", file, *where)
        assert code == 0, (out, err, site.story())

    def frames(more: int = 1) -> int:
        wanted = len(site.written()) + more
        return wait_for("frames", lambda: done if (done := len(site.written())) >= wanted else 0, site.story)

    def operated(name: str) -> AbstractContextManager[OperatorProcess]:
        return operator(real_node, node_namespace, tmp_path / name)

    with operated("first.log") as first:
        deploy(1)
        frames(20)
        secrets = site.versions(SECRETS)
        _rest(first, site)
        deploy(2)
        frames(20)
        marks = [line["value"]["mark"] for line in site.written()]
        assert marks == sorted(marks), "the run moves to the new code at one frame"
        assert {*marks} == {1, 2}, "the coordinator's pod goes on with its data"
        assert site.versions(SECRETS).items() >= secrets.items(), "certificates are issued once"

    frames(20)  # without an operator
    with operated("second.log") as second:
        wait_for("a pass", lambda: second.passes() >= 1, site.story)
        _rest(second, site)
        lost = site.pod("server")
        site.delete(lost)
        wait_for("a new pod", lambda: _other(site, lost), site.story)
        frames(60)
        numbers = [line["sequence"] for line in site.written()]
        assert numbers == list(range(len(numbers))), "no frame is lost or repeated on block edges"

        code, out, err = run("pipeline", "drain", "bright", *where)
        assert code == 0, (out, err)
        assert site.objects(PODS) == []
        code, out, err = run("pipeline", "delete", "bright", *where)
        assert code == 0, (out, err)
        wait_for("nothing to be left", lambda: not site.left(), lambda: str(site.left()))


def _rest(running: OperatorProcess, site: DeployedPipeline) -> None:
    """While nothing changes, the operator sends nothing but what keeps its Lease."""
    wait_for("a stable pipeline", lambda: site.is_stable() or None, site.story)
    running.wait_for_renewals(2)
    requests = running.requests()
    running.wait_for_renewals(3)
    assert running.requests() == requests, running.page()


def _other(site: DeployedPipeline, lost: dict[str, Any]) -> bool:
    pod = site.pods().get("server")
    return pod is not None and pod["metadata"]["uid"] != lost["metadata"]["uid"]
