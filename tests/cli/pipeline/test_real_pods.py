"""A Pipeline with two hosts as real pods: mutual TLS, new code, a new operator, a lost host, and its end."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import CONFIG_MAPS, PODS, Kind
from tests.cli.examples import Run
from tests.e2e.api import wait_for
from tests.images import pipeline_archive
from tests.kinds import define_kind, forget_kind
from tests.labs import RealApi, RealNode
from tests.pipelineobjects.operated import PIPELINES, OperatorProcess, operator

FILE = """
pipeline: bright
stages:
  - {name: camera, source: numbers, options: {shape: [72, 128, 3], rate: 30}, on: edge, on_error: restart}
  - {name: bright, run: "pkg.stages:bright", on: server, in: Image, out: Record, on_error: restart}
  - {name: log, sink: jsonl, options: {path: /data/out.jsonl}, on_error: restart}
hosts:
  edge: {pod: {}}
  server: {pod: {resources: {limits: {memory: 512Mi}}}}
cluster: {schedulerName: default-scheduler, imagePullPolicy: Never}
"""
CODE = "def bright(image):\n    return {'mark': MARK, 'first': int(image[0, 0, 0])}\n"
SECRETS = Kind.of("", "v1", "secrets", namespaced=True, name="Secret")
SERVICES = Kind.of("", "v1", "services", namespaced=True, name="Service")
POLICIES = Kind.of("networking.k8s.io", "v1", "networkpolicies", namespaced=True, name="NetworkPolicy")


class Site:
    """The pods of the Pipeline and what they have written."""

    def __init__(self, node: RealNode, namespace: str) -> None:
        self._node = node
        self._namespace = namespace

    def objects(self, kind: Kind[Any]) -> list[dict[str, Any]]:
        """Return the objects of the namespace."""

        async def read() -> list[dict[str, Any]]:
            async with Client.connect(self._node.config) as client:
                listed = await client.list(kind.raw(), self._namespace)
                return [each.document() for each in listed.items]

        return asyncio.run(read())

    def versions(self, kind: Kind[Any]) -> dict[str, str]:
        """Return the versions of objects by their uids."""
        found = [each["metadata"] for each in self.objects(kind)]
        return {each["uid"]: each["resourceVersion"] for each in found}

    def is_stable(self) -> bool:
        """Say whether the operator waits for nothing."""
        (pipeline,) = self.objects(PIPELINES)
        conditions = {each["type"]: each["status"] for each in pipeline["status"]["conditions"]}
        return (conditions["Ready"], conditions["Progressing"]) == ("True", "False")

    def pod(self, host: str) -> dict[str, Any]:
        """Return the pod of a host."""
        label = "fairlead.dev/pipeline-host"
        return next(each for each in self.objects(PODS) if each["metadata"]["labels"][label] == host)

    def written(self) -> list[dict[str, Any]]:
        """Return the lines that the sink has written, without one that is being written."""
        uid = self.pod("local")["metadata"]["uid"]
        volumes = self._node.kubelet / "pods" / uid / "volumes"
        path = volumes / "kubernetes.io~empty-dir" / "data" / "out.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def delete(self, pod: dict[str, Any]) -> None:
        """Delete a pod at once."""

        async def inside() -> None:
            async with Client.connect(self._node.config) as client:
                await client.delete(PODS, pod["metadata"]["name"], self._namespace, grace=0)

        asyncio.run(inside())

    def story(self) -> str:
        """Return the pods, for a message."""
        return json.dumps([each.get("status") for each in self.objects(PODS)])[:4000]


@pytest.fixture
def site(real_node: RealNode, node_namespace: str, tmp_path: Path) -> Iterator[Site]:
    """Return a namespace of a node that has the image, and the kind."""
    real_node.load(pipeline_archive())
    api = RealApi(real_node.config, real_node.kubeconfig, real_node.lab)
    define_kind(api, "pipelines.yaml", PIPELINES)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "bright.yaml").write_text(FILE)
    yield Site(real_node, node_namespace)
    if real_node.lab is not None:
        forget_kind(api, "pipelines.yaml")  # tests of uninstalls share the node


def test_a_pipeline_of_two_hosts_lives_as_pods(
    site: Site, real_node: RealNode, node_namespace: str, tmp_path: Path, run: Run
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
        return operator(real_node.kubeconfig, node_namespace, tmp_path / name)

    with operated("first.log") as first:
        deploy(1)
        frames(20)
        secrets = site.versions(SECRETS)
        _rest(first, site)
        deploy(2)
        frames(20)
        assert {line["value"]["mark"] for line in site.written()} == {2}, "the new pod has new code and data"
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
        wait_for("nothing to be left", lambda: not _left(site), lambda: str(_left(site)))


def _rest(running: OperatorProcess, site: Site) -> None:
    """While nothing changes, the operator sends nothing but what keeps its Lease."""
    wait_for("a stable pipeline", lambda: site.is_stable() or None, site.story)
    running.wait_for_renewals(2)
    requests = running.requests()
    running.wait_for_renewals(3)
    assert running.requests() == requests, running.page()


def _other(site: Site, lost: dict[str, Any]) -> bool | None:
    pods = [each for each in site.objects(PODS) if each["metadata"]["name"] == lost["metadata"]["name"]]
    ready = [each for each in pods if each["metadata"]["uid"] != lost["metadata"]["uid"]]
    return True if ready else None


def _left(site: Site) -> list[dict[str, Any]]:
    """Return what the Pipeline has left; one ConfigMap is of every namespace."""
    maps = [each for each in site.objects(CONFIG_MAPS) if each["metadata"]["name"] != "kube-root-ca.crt"]
    kinds = (PIPELINES, SECRETS, SERVICES, POLICIES, PODS)
    return [*maps, *(each for kind in kinds for each in site.objects(kind))]
