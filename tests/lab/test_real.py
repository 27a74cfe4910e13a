"""Labs of real programs: each profile comes up, does what a cluster does, and leaves nothing."""

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
KNOBS = [
    Path("/proc/sys", knob)
    for knob in ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom")
]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[LabCommandLine]:
    door = LabCommandLine(tmp_path / "state")
    yield door
    for name in [lab.name for lab in door.home.labs()]:
        door("down", "--name", name)
    reap(door.home)


def need(profile: LabProfile) -> None:
    """Give up where what a profile is made of cannot be had."""
    try:
        gather(profile, StepPrinter(io.StringIO()), kwok=True)
    except LabError as error:
        skip_without_lab(str(error).splitlines()[0])


def need_nodes(door: LabCommandLine) -> None:
    """Give up where real nodes cannot run."""
    obstacle = namespaces.obstacle(door.root)
    if obstacle:
        skip_without_lab(obstacle)
    need(LabProfile.NODE)


def kubectl(door: LabCommandLine, *arguments: str) -> str:
    done = door("kubectl", "--name", "real", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def found(door: LabCommandLine, *arguments: str) -> Any:
    return json.loads(kubectl(door, "get", *arguments, "-o", "json"))


def phase(door: LabCommandLine, pod: str) -> Callable[[], bool]:
    return lambda: found(door, "pod", pod)["status"].get("phase") == "Running"


def test_an_api_server_that_is_killed_can_be_seen_and_ended(door: LabCommandLine) -> None:
    need(LabProfile.API)
    lab = door.json("up", "--name", "real", "--profile", "api")
    assert lab["times_seconds"]["total"] < 60
    assert "default" in kubectl(door, "get", "namespaces", "-o", "name")
    assert "Server Version: v1." in kubectl(door, "version")
    kubectl(door, "run", "p", "--image=x")  # no controllers, so no service account is asked for
    server = next(each for each in lab["programs"] if each["name"] == "kube-apiserver")
    os.kill(server["pid"], signal.SIGKILL)
    wait_until(lambda: door("status").returncode == 1)
    assert door("down", "--name", "real").returncode == 0
    assert door.leftovers() == []


def test_a_fleet_takes_pods_where_their_devices_are(door: LabCommandLine) -> None:
    need(LabProfile.CONTROL)
    lab = door.json("up", "--name", "real", "--profile", "control", "--fleet", str(EXAMPLE))
    assert lab["nodes"] == 6
    nodes = found(door, "nodes", "-l", "fairlead.dev/jetson-nano.count=1")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["nano-0", "nano-1", "nano-2"]
    assert not any(node["spec"].get("taints") for node in nodes)
    wish = '{"spec":{"containers":[{"name":"p","image":"x","resources":{"limits":{"fairlead.dev/a10":2}}}]}}'
    kubectl(door, "run", "p", "--image=x", f"--overrides={wish}")
    wait_until(phase(door, "p"))
    assert found(door, "pod", "p")["spec"]["nodeName"] == "server-0"
    assert door("down", "--name", "real").returncode == 0
    assert door.leftovers() == []


def test_real_nodes_run_pods_that_find_each_other(door: LabCommandLine) -> None:
    need_nodes(door)
    before = [knob.read_text() for knob in KNOBS]
    up = door("up", "--name", "real", "--profile", "node", "--nodes", "2", "-o", "json")
    assert up.returncode == 0, up.stderr
    nodes = found(door, "nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["node-1", "node-2"]
    kubectl(door, "apply", "-f", str(PODS))
    for pod in ("server", "client"):
        wait_until(phase(door, pod))
    assert kubectl(door, "logs", "server") == "serving as 10001\n"
    ask = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 hello.default.svc.cluster.local 80"
    answer = ("kubectl", "--name", "real", "exec", "client", "--", "sh", "-c", ask)
    wait_until(lambda: "hello from node-1" in door(*answer).stdout)
    assert [knob.read_text() for knob in KNOBS] == before
    # Whoever finds only the first node's init can still end all of it.
    lab = door.home.get("real")
    process.send_signal(lab.namespaces[0].init, signal.SIGKILL)
    wait_until(lambda: not any(process.alive(space.init) for space in lab.namespaces))
    assert door("down", "--name", "real").returncode == 0
    assert door.leftovers() == []


def test_what_a_killed_start_of_real_nodes_left_is_reaped(door: LabCommandLine) -> None:
    need_nodes(door)
    with door.start("up", "--name", "real", "--profile", "node", "--nodes", "2") as starting:
        wait_until(
            lambda: any(
                lab.programs and lab.programs[-1].name == "kube-apiserver" for lab in door.home.labs()
            )
        )
        starting.kill()
    assert door.processes()
    assert door.json("reap")[0]["name"] == "real"
    assert door.leftovers() == []


def test_what_real_nodes_cannot_be_is_said_beforehand(door: LabCommandLine) -> None:
    if os.geteuid() != 0:
        assert "real nodes need root" in door("up", "--profile", "node").stderr
        return
    assert "set XDG_STATE_HOME" in namespaces.obstacle(Path("/var/lib/somewhere"))
    need_nodes(door)
    assert "from 1 to 64 fit" in door("up", "--profile", "node", "--nodes", "0").stderr
    door.root.mkdir()
    fleet = door.root / "fleet.toml"
    fleet.write_text('[[group]]\nname = "node"\ncount = 2\n')
    clash = door("up", "--profile", "node", "--fleet", str(fleet))
    assert clash.returncode == 2
    assert "the fleet has a node 'node-1'" in clash.stderr
