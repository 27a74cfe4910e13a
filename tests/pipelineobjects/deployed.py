"""A Pipeline on a lab with real nodes: its objects, and the processes of its pods."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import CONFIG_MAPS, PODS, Kind
from fairlead.errors import NotFoundError
from tests.e2e.api import wait_for
from tests.images import pipeline_archive
from tests.kinds import define_kind, forget_kind
from tests.labs import RealApi, RealNode
from tests.pipelineobjects.operated import PIPELINES

SECRETS = Kind.of("", "v1", "secrets", namespaced=True, name="Secret")
SERVICES = Kind.of("", "v1", "services", namespaced=True, name="Service")
POLICIES = Kind.of("networking.k8s.io", "v1", "networkpolicies", namespaced=True, name="NetworkPolicy")
_HOST = "fairlead.dev/pipeline-host"


@contextmanager
def kind_installed(node: RealNode) -> Iterator[None]:
    """Serve the kind Pipeline during the block, on a node that has the image; no Pipeline outlives it."""
    node.load(pipeline_archive())
    api = RealApi(node.config, node.kubeconfig, node.lab)
    define_kind(api, "pipelines.yaml", PIPELINES)
    try:
        yield
    finally:
        asyncio.run(_abandon(node))
        forget_kind(api, "pipelines.yaml")  # tests of uninstalls share the node


async def _abandon(node: RealNode) -> None:
    """Let Pipelines of a test that has failed go without an operator."""
    async with Client.connect(node.config) as client:
        for each in (await client.list(PIPELINES)).items:
            with suppress(NotFoundError):
                meta = each.metadata
                await client.patch(PIPELINES, meta.name, {"metadata": {"finalizers": None}}, meta.namespace)


class DeployedPipeline:
    """The objects of the one Pipeline of a namespace, and what its pods have written."""

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

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Return status and reason of each condition; empty: no operator has looked at it yet."""
        (pipeline,) = self.objects(PIPELINES)
        listed = (pipeline.get("status") or {}).get("conditions") or ()
        return {each["type"]: (each["status"], each["reason"]) for each in listed}

    def replicas(self) -> dict[str, int]:
        """Return the replicas of the stages whose number follows the load, as the status has them."""
        (pipeline,) = self.objects(PIPELINES)
        scaled = (pipeline.get("status") or {}).get("scaling") or ()
        return {each["stage"]: each["replicas"] for each in scaled}

    def is_stable(self) -> bool:
        """Say whether the operator waits for nothing."""
        conditions = self.conditions()
        return (conditions["Ready"][0], conditions["Progressing"][0]) == ("True", "False")

    def pods(self) -> dict[str, dict[str, Any]]:
        """Return the pods by host."""
        return {each["metadata"]["labels"][_HOST]: each for each in self.objects(PODS)}

    def pod(self, host: str) -> dict[str, Any]:
        """Return the pod of a host."""
        return self.pods()[host]

    def written(self) -> list[dict[str, Any]]:
        """Return the lines that the sink has written to /data of the coordinator's pod, an emptyDir."""
        volumes = self._node.kubelet / "pods" / self.pod("local")["metadata"]["uid"] / "volumes"
        return complete_lines(volumes / "kubernetes.io~empty-dir" / "data" / "out.jsonl")

    def delete(self, pod: dict[str, Any], grace: int = 0) -> None:
        """Delete a pod, by default at once."""

        async def inside() -> None:
            async with Client.connect(self._node.config) as client:
                await client.delete(PODS, pod["metadata"]["name"], self._namespace, grace=grace)

        asyncio.run(inside())

    def story(self) -> str:
        """Return the conditions and the pods, for a message."""
        pods = {host: each.get("status") for host, each in self.pods().items()}
        return json.dumps([self.conditions(), pods])[:6000]

    def left(self) -> list[dict[str, Any]]:
        """Return what the Pipeline has left; one ConfigMap is of every namespace."""
        maps = [each for each in self.objects(CONFIG_MAPS) if each["metadata"]["name"] != "kube-root-ca.crt"]
        kinds = (PIPELINES, SECRETS, SERVICES, POLICIES, PODS)
        return [*maps, *(each for kind in kinds for each in self.objects(kind))]

    def main_process(self, host: str) -> int:
        """Return the process id, on this machine, of the program of a host's container."""
        return self._process(host, lambda pid: _namespaced_pid(pid) == 1)

    def worker_process(self, host: str) -> int:
        """Return the process id, on this machine, of a process of a host in which stages are."""
        return self._process(host, lambda pid: "-m fairlead.pipeline.worker" in _words(pid))

    def kill(self, pid: int) -> None:
        """End a process as the kernel does when memory is short."""
        os.kill(pid, signal.SIGKILL)

    def wait_for(self, what: str, look: Callable[[], Any]) -> Any:
        """Wait for something of this Pipeline; its story is in the message when it does not come."""
        return wait_for(what, look, self.story)

    def _process(self, host: str, is_it: Callable[[int], bool]) -> int:
        uid = self.pod(host)["metadata"]["uid"]

        def look() -> int | None:
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                with suppress(OSError, StopIteration):
                    if f"pod{uid}" in _text(pid, "cgroup") and "fairlead" in _words(pid) and is_it(pid):
                        return pid
            return None

        return wait_for(f"a process of {host}", look, self.story)


def complete_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file, without one that is being written."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _text(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")


def _words(pid: int) -> str:
    return _text(pid, "cmdline").replace("\0", " ")


def _namespaced_pid(pid: int) -> int:
    line = next(line for line in _text(pid, "status").splitlines() if line.startswith("NSpid:"))
    return int(line.split()[-1])
