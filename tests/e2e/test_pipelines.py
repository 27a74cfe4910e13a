"""A Pipeline on a real node: its processes and pods are killed, its sink has each frame once, in order."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from fairlead.cli.main import main
from tests.e2e.pipelines import NAME, USER, KeptFolder, expected, write_files
from tests.e2e.schedulers import running_scheduler
from tests.labs import RealNode
from tests.pipelineobjects.deployed import DeployedPipeline, kind_installed
from tests.pipelineobjects.operated import OperatorProcess, operator

HOSTS = ("edge", "server", "local")


@pytest.fixture
def kept(real_node: RealNode, node_namespace: str) -> Iterator[KeptFolder]:
    """Return a claim, in a namespace of a node that has the kind, the image and our scheduler."""
    folder = KeptFolder(real_node, node_namespace)
    with kind_installed(real_node), folder, running_scheduler(real_node):
        yield folder


def test_each_frame_is_taken_once_whatever_is_killed(
    kept: KeptFolder,
    real_node: RealNode,
    node_namespace: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pipeline = DeployedPipeline(real_node, node_namespace)
    file = str(write_files(tmp_path, "fairlead"))
    where = ("--kubeconfig", str(real_node.kubeconfig), "-n", node_namespace)

    def command(verb: str, name: str, *more: str) -> str:
        code = main(["pipeline", verb, name, *where, *more])
        out, err = capsys.readouterr()
        assert code == 0, (out, err, pipeline.story())
        return out

    def operated(name: str) -> AbstractContextManager[OperatorProcess]:
        return operator(real_node, node_namespace, tmp_path / name)

    with operated("first.log"):
        command("deploy", file, "--wait")
        kept.wait_for_frames(pipeline)
        for host in HOSTS:
            assert_confined(pipeline.main_process(host))
        with kept.heavy():
            pipeline.wait_for("a second replica", lambda: pipeline.replicas() == {"double": 2})
        assert len(pipeline.pods()) == len(HOSTS), "replicas are processes of one pod"
        for host in HOSTS:
            pipeline.kill(pipeline.worker_process(host))
            kept.wait_for_frames(pipeline)
        for host in HOSTS:
            kill_container(pipeline, host)
            kept.wait_for_frames(pipeline)

    pipeline.delete(pipeline.pod("edge"))
    pipeline.wait_for("the pod to go", lambda: "edge" not in pipeline.pods())

    with operated("second.log"):
        pipeline.wait_for("a new pod", lambda: "edge" in pipeline.pods())
        kept.wait_for_frames(pipeline)
        lost = pipeline.pod("local")
        pipeline.delete(lost)
        pipeline.wait_for("a new coordinator", lambda: replaced(pipeline, "local", lost["metadata"]["uid"]))
        kept.wait_for_frames(pipeline)

        command("drain", NAME, "--wait")
        assert pipeline.pods() == {}
        command("deploy", file, "--wait")
        assert "Running" in command("status", NAME)

        frames = kept.end_source()
        pipeline.wait_for("the end", lambda: pipeline.conditions()["Ready"] == ("False", "Completed"))
        assert kept.written() == expected(frames)
        command("delete", NAME, "--wait")
        pipeline.wait_for("nothing to be left", lambda: not pipeline.left())


def kill_container(pipeline: DeployedPipeline, host: str) -> None:
    """Kill the program of a host, and wait until the kubelet has started its container again."""
    uid = pipeline.pod(host)["metadata"]["uid"]
    pipeline.kill(pipeline.main_process(host))

    def is_back() -> bool:
        pod = pipeline.pod(host)
        (container,) = pod["status"]["containerStatuses"]
        return bool(container["restartCount"] >= 1 and container["ready"])

    pipeline.wait_for(f"{host} to be ready again", is_back)
    assert pipeline.pod(host)["metadata"]["uid"] == uid, "the pod is the same"


def replaced(pipeline: DeployedPipeline, host: str, uid: str) -> bool:
    """Return whether a host has another pod."""
    pod = pipeline.pods().get(host)
    return bool(pod and pod["metadata"]["uid"] != uid)


def assert_confined(pid: int) -> None:
    """Read the privileges of a pod's program from the kernel, not from its manifest."""
    process = Path("/proc", str(pid))
    status = dict(
        line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line
    )
    assert status["Uid"].split() == status["Gid"].split() == [str(USER)] * 4
    assert {int(status[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    mounts = [line.split()[:4] for line in (process / "mounts").read_text().splitlines()]
    assert next(options for _, place, _, options in mounts if place == "/").startswith("ro")
    assert not [place for _, place, _, _ in mounts if "serviceaccount" in place], "no token"
