"""Shares that are enforced, on a real kubelet with a played MPS: a daemon for each pod that asks for one."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.limiter.mps import PROCESS_NAME
from tests.e2e.api import CORE, wait_for
from tests.e2e.install import NAMESPACE, Site
from tests.e2e.machines import TWO_T4, two_small
from tests.e2e.pods import Pods
from tests.e2e.test_privileges import AGENT
from tests.limiter.control import write_control

MEMORY = "fairlead.dev/gpu-mem"
MIB = 1024
FOLDER = "run/fairlead-mps"
PIPE = "/tmp/nvidia-mps"
UUIDS = {device: f"GPU-00000000-0000-0000-0000-{index:012d}" for index, device in enumerate(TWO_T4)}
_LIMITERS = f"{CORE}/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component=limiter"


@pytest.fixture
def limited(installed: Site, node_namespace: str) -> Iterator[Pods]:
    """Return pods on a node with a limiter, whose machine has two GPUs and a played MPS."""
    installed.install({"limiter.enabled": True})
    pods = Pods(installed, node_namespace)

    def with_mps(root: Path) -> None:
        two_small(root)
        write_control(root / "fairlead", python="/usr/bin/python3")

    installed.replay("server-t4", with_mps)
    yield pods
    pods.clear()


def test_a_pod_that_asks_is_held_to_its_share_by_a_daemon_of_its_own(limited: Pods) -> None:
    pods, site = limited, limited.site
    pods.template("share", MIB)
    plain, unit, claimed = (
        pods.manifest("plain", {MEMORY: MIB}),
        pods.manifest("unit", {MEMORY: MIB}),
        pods.manifest("claimed", {}, claim="share"),
    )
    for manifest in (unit, claimed):
        manifest["metadata"]["annotations"] = {
            "fairlead.dev/limiter": "mps",
            "fairlead.dev/gpu-compute": "25%",
        }
    unit["spec"]["securityContext"] = {"runAsUser": 1000}
    try:
        pods.make([plain, unit, claimed])
        pods.wait_running(["plain", "unit", "claimed"])
        environ = pods.environ(["plain", "unit", "claimed"])
        assert not [name for name in environ["plain"] if "MPS" in name]
        assert "No such file" in pods.run("plain", f"ls {PIPE}")
        processes = daemons()
        assert len(processes) == 2
        for name in ("unit", "claimed"):
            given = environ[name]
            assert given["CUDA_MPS_PIPE_DIRECTORY"] == PIPE
            assert given["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={MIB}M"
            assert given["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
            assert "control" in pods.run(name, f"ls {PIPE}").split()
            assert "Read-only file system" in pods.run(name, f"touch {PIPE}/x")
            assert UUIDS[given["FAIRLEAD_DEVICE"]] in {
                each["CUDA_VISIBLE_DEVICES"] for each in processes.values()
            }
        check_privileges(site, next(iter(processes)))

        killed = next(iter(processes))
        folder = processes[killed]["CUDA_MPS_PIPE_DIRECTORY"]
        os.kill(killed, signal.SIGKILL)
        wait_for(
            "the killed daemon",
            lambda: [
                pid
                for pid, each in daemons().items()
                if pid != killed and each["CUDA_MPS_PIPE_DIRECTORY"] == folder
            ],
            site.diagnostics,
        )
        assert "control" in pods.run("unit", f"ls {PIPE}").split()

        pods.stop(["claimed"])
        wait_for("the end of the claim's daemon", lambda: len(daemons()) == 1, site.diagnostics)
    finally:
        pods.stop(pods.all())
    wait_for("the end of the last daemon", lambda: not daemons(), site.diagnostics)
    assert not left(site)


def left(site: Site) -> list[str]:
    """Return the folders of daemons on the node."""
    (limiter,) = [pod for pod in site.api.items(_LIMITERS) if "deletionTimestamp" not in pod["metadata"]]
    script = "import os; print([each for each in os.listdir('/run/fairlead-mps') if len(each) == 32])"
    done = site.exec_in(
        NAMESPACE, limiter["metadata"]["name"], "limiter", "/usr/bin/python3", "-IS", "-c", script
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.replace("'", '"')))


def daemons() -> dict[int, dict[str, str]]:
    """Return the variables of the daemons that live in the lab, by their pids."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        process = Path("/proc", pid)
        try:
            name = (process / "comm").read_text(encoding="ascii", errors="replace").strip()
            words = (process / "cmdline").read_bytes().split(b"\0")
            pairs = (process / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        variables = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        if (
            name == PROCESS_NAME
            and b"-d" in words
            and f"/{FOLDER}/" in variables.get("CUDA_MPS_PIPE_DIRECTORY", "")
        ):
            found[int(pid)] = variables
    return found


def check_privileges(site: Site, pid: int) -> None:
    """Check that a daemon is root without capabilities, in namespaces of its own."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["0"] * 4
    assert set(status["Groups"].split()) <= {"0", AGENT}
    assert {int(status[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    node = site.lab.lab.namespaces[0].init.pid
    for kind in ("net", "pid", "ipc", "uts", "mnt"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/{node}/ns/{kind}"), kind
    mounts = Path(f"/proc/{pid}/mounts").read_text(encoding="utf-8")
    assert "kubernetes.io/serviceaccount" not in mounts
    assert "/var/lib/kubelet" not in mounts
