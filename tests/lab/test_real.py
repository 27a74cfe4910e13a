"""Labs of real programs: each profile starts, works as a cluster, and leaves nothing behind."""

import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import LabError
from fairlead.lab.build.prerequisites import gather
from fairlead.lab.node import namespaces
from fairlead.lab.run import process
from fairlead.lab.run.down import reap
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.steps import StepPrinter
from tests.lab.command_line import LabCommandLine, wait_until
from tests.labs import skip_without_lab

EXAMPLE = Path(__file__).parents[2] / "examples" / "fleet.toml"
PODS = Path(__file__).with_name("pods.yaml")
SYSCTLS = [
    Path("/proc/sys", sysctl)
    for sysctl in ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom")
]


@pytest.fixture
def lab_cli(tmp_path: Path) -> Iterator[LabCommandLine]:
    lab_cli = LabCommandLine(tmp_path / "state")
    yield lab_cli
    for name in [lab.name for lab in lab_cli.home.labs()]:
        lab_cli("down", "--name", name)
    reap(lab_cli.home)


def need(profile: LabProfile) -> None:
    """Skip if the prerequisites of a profile cannot be built."""
    try:
        gather(profile, StepPrinter(io.StringIO()), kwok=True)
    except LabError as error:
        skip_without_lab(str(error).splitlines()[0])


def need_nodes(lab_cli: LabCommandLine) -> None:
    """Skip if real nodes cannot run."""
    obstacle = namespaces.obstacle(lab_cli.root)
    if obstacle:
        skip_without_lab(obstacle)
    need(LabProfile.NODE)


def kubectl(lab_cli: LabCommandLine, *arguments: str) -> str:
    done = lab_cli("kubectl", "--name", "real", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def get(lab_cli: LabCommandLine, *arguments: str) -> Any:
    return json.loads(kubectl(lab_cli, "get", *arguments, "-o", "json"))


def phase(lab_cli: LabCommandLine, pod: str) -> Callable[[], bool]:
    return lambda: get(lab_cli, "pod", pod)["status"].get("phase") == "Running"


def test_a_killed_api_server_shows_in_the_status_and_the_lab_can_be_ended(lab_cli: LabCommandLine) -> None:
    need(LabProfile.API)
    lab = lab_cli.json("up", "--name", "real", "--profile", "api")
    assert lab["times_seconds"]["total"] < 60
    assert "default" in kubectl(lab_cli, "get", "namespaces", "-o", "name")
    assert "Server Version: v1." in kubectl(lab_cli, "version")
    kubectl(lab_cli, "run", "p", "--image=x")  # without controllers, no service account is required
    server = next(program for program in lab["programs"] if program["name"] == "kube-apiserver")
    os.kill(server["pid"], signal.SIGKILL)
    wait_until(lambda: lab_cli("status").returncode == 1)
    assert lab_cli("down", "--name", "real").returncode == 0
    assert lab_cli.leftovers() == []


def test_pods_are_scheduled_to_the_nodes_of_a_fleet_by_their_devices(lab_cli: LabCommandLine) -> None:
    need(LabProfile.CONTROL)
    lab = lab_cli.json("up", "--name", "real", "--profile", "control", "--fleet", str(EXAMPLE))
    assert lab["nodes"] == 6
    nodes = get(lab_cli, "nodes", "-l", "fairlead.dev/jetson-nano.count=1")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["nano-0", "nano-1", "nano-2"]
    assert not any(node["spec"].get("taints") for node in nodes)
    overrides = (
        '{"spec":{"containers":[{"name":"p","image":"x","resources":{"limits":{"fairlead.dev/a10":2}}}]}}'
    )
    kubectl(lab_cli, "run", "p", "--image=x", f"--overrides={overrides}")
    wait_until(phase(lab_cli, "p"))
    assert get(lab_cli, "pod", "p")["spec"]["nodeName"] == "server-0"
    assert lab_cli("down", "--name", "real").returncode == 0
    assert lab_cli.leftovers() == []


def test_real_nodes_run_pods_that_reach_each_other(lab_cli: LabCommandLine) -> None:
    need_nodes(lab_cli)
    before = [sysctl.read_text() for sysctl in SYSCTLS]
    up = lab_cli("up", "--name", "real", "--profile", "node", "--nodes", "2", "-o", "json")
    assert up.returncode == 0, up.stderr
    nodes = get(lab_cli, "nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["node-1", "node-2"]
    kubectl(lab_cli, "apply", "-f", str(PODS))
    for pod in ("server", "client"):
        wait_until(phase(lab_cli, pod))
    assert kubectl(lab_cli, "logs", "server") == "serving as 10001\n"
    request = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 hello.default.svc.cluster.local 80"
    answer = ("kubectl", "--name", "real", "exec", "client", "--", "sh", "-c", request)
    wait_until(lambda: "hello from node-1" in lab_cli(*answer).stdout)
    assert [sysctl.read_text() for sysctl in SYSCTLS] == before
    # The end of the first node's init ends everything.
    lab = lab_cli.home.get("real")
    process.send_signal(lab.namespaces[0].init, signal.SIGKILL)
    wait_until(lambda: not any(process.alive(node_ns.init) for node_ns in lab.namespaces))
    assert lab_cli("down", "--name", "real").returncode == 0
    assert lab_cli.leftovers() == []


def test_a_killed_start_of_real_nodes_is_reaped(lab_cli: LabCommandLine) -> None:
    need_nodes(lab_cli)
    with lab_cli.start("up", "--name", "real", "--profile", "node", "--nodes", "2") as starting:
        wait_until(
            lambda: any(
                lab.programs and lab.programs[-1].name == "kube-apiserver" for lab in lab_cli.home.labs()
            )
        )
        starting.kill()
    assert lab_cli.processes()
    assert lab_cli.json("reap")[0]["name"] == "real"
    assert lab_cli.leftovers() == []


def test_an_impossible_spec_of_real_nodes_is_rejected_before_the_start(lab_cli: LabCommandLine) -> None:
    if os.geteuid() != 0:
        assert "real nodes need root" in lab_cli("up", "--profile", "node").stderr
        return
    assert "set XDG_STATE_HOME" in namespaces.obstacle(Path("/var/lib/somewhere"))
    need_nodes(lab_cli)
    assert "from 1 to 64" in lab_cli("up", "--profile", "node", "--nodes", "0").stderr
    lab_cli.root.mkdir()
    fleet = lab_cli.root / "fleet.toml"
    fleet.write_text('[[group]]\nname = "node"\ncount = 2\n')
    clash = lab_cli("up", "--profile", "node", "--fleet", str(fleet))
    assert clash.returncode == 2
    assert "the fleet has a node 'node-1'" in clash.stderr
