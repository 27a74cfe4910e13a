"""A Pipeline on two real nodes: the API server is away for a minute, programs of the cluster are killed."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.lab.node.layout import PLAIN
from tests.e2e.pipelines import NAME, KeptFolder, expected, write_files
from tests.e2e.schedulers import running_scheduler
from tests.labs import RealApi, RealNode, open_namespace, own_node
from tests.pipelineobjects.deployed import DeployedPipeline, kind_installed

AWAY = 60.0
"""Seconds for which the API server does not answer."""
NAMESPACE = "shop"
PLACES = {"edge": {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}} | {
    "server": {"nodeSelector": {"kubernetes.io/hostname": "node-2"}}
}


@pytest.fixture
def nodes(real_api: object) -> Iterator[RealNode]:
    """Return a lab of two real nodes that has the kind and the image; it skips where other labs do."""
    with own_node(PLAIN, nodes=2) as lab:
        asyncio.run(open_namespace(RealApi(lab.config, lab.kubeconfig, None), NAMESPACE))
        with kind_installed(lab):
            yield lab


@pytest.mark.skipif(os.environ.get("FAIRLEAD_CHAOS") != "long", reason="two minutes: FAIRLEAD_CHAOS=long")
def test_frames_flow_on_while_the_cluster_is_away(
    nodes: RealNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = DeployedPipeline(nodes, NAMESPACE)
    file = str(write_files(tmp_path, "fairlead", PLACES))

    def command(verb: str, name: str) -> None:
        where = ("--kubeconfig", str(nodes.kubeconfig), "-n", NAMESPACE, "--wait")
        assert main(["pipeline", verb, name, *where]) == 0, (capsys.readouterr(), pipeline.story())

    with KeptFolder(nodes, NAMESPACE) as kept, running_operator(nodes, tmp_path / "second.log"):
        with running_operator(nodes, tmp_path / "first.log") as operator, running_scheduler(nodes):
            command("deploy", file)
            places = {host: pod["spec"]["nodeName"] for host, pod in pipeline.pods().items()}
            assert (places["edge"], places["server"]) == ("node-1", "node-2")
            pods = {host: pod["metadata"]["uid"] for host, pod in pipeline.pods().items()}
            kept.wait_for_frames(pipeline)

            with stopped(nodes, "kube-apiserver"):
                until = time.monotonic() + AWAY
                while time.monotonic() < until:
                    wait_for_lines(kept)
            pipeline.wait_for("a stable pipeline", lambda: pipeline.is_stable() or None)
            assert {host: pod["metadata"]["uid"] for host, pod in pipeline.pods().items()} == pods

            operator.kill()
            for program in ("kube-apiserver", "kubelet", "kubelet-2", "containerd-2"):
                nodes.restart(program, kill=True)
                wait_for_lines(kept)
        # The second operator leads now, and no scheduler runs: a pod of ours waits for its node.
        pipeline.delete(pipeline.pod("server"))
        with running_scheduler(nodes):
            kept.wait_for_frames(pipeline, 500)
        frames = kept.end_source()
        pipeline.wait_for("the end", lambda: pipeline.conditions()["Ready"] == ("False", "Completed"))
        assert kept.written() == expected(frames)
        command("delete", NAME)
        pipeline.wait_for("nothing to be left", lambda: not pipeline.left())


def wait_for_lines(kept: KeptFolder) -> None:
    """Wait until the sink has taken further frames; asks no API server."""
    wanted, until = len(kept.written()) + 20, time.monotonic() + 300
    while len(kept.written()) < wanted:
        assert time.monotonic() < until, "no frame for five minutes"
        time.sleep(0.1)


@contextmanager
def stopped(nodes: RealNode, name: str) -> Iterator[None]:
    """Stop a program of the lab during the block: connections to it hang, as those to a lost machine."""
    pid = next(each.process.pid for each in nodes.lab.programs if each.name == name)
    assert Path(f"/proc/{pid}/comm").read_text().strip() == name, "not the program that started it"
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def running_operator(nodes: RealNode, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a replica of the operator during the block, which may kill it."""
    words = ("serve", "operator", "--kubeconfig", str(nodes.kubeconfig), "--listen", "127.0.0.1:0")
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", *words, "--lease-namespace", NAMESPACE], stderr=out
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
