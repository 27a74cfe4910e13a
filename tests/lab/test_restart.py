"""Restarts: a program keeps its command line and is healthy again, and pods keep running."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.lab.run.process import Process
from fairlead.lab.run.state import Lab, LabProfile, LabProgram, load, save
from tests.lab.command_line import LabCommandLine, write_fake_programs
from tests.labs import RealNode


@pytest.fixture
def lab_cli(tmp_path: Path) -> Iterator[LabCommandLine]:
    lab_cli = LabCommandLine(tmp_path / "state", write_fake_programs(tmp_path / "assets"))
    yield lab_cli
    lab_cli("down")


def test_a_restarted_program_has_the_same_command_line(lab_cli: LabCommandLine) -> None:
    before = lab_cli.json("up", "--profile", "api")["programs"]
    line = Path(f"/proc/{before[1]['pid']}/cmdline").read_bytes()
    done = lab_cli.json("restart", "kube-apiserver")
    assert (done["program"], done["ended_pid"], done["killed"]) == ("kube-apiserver", before[1]["pid"], False)
    assert Path(f"/proc/{done['started_pid']}/cmdline").read_bytes() == line
    (status,) = lab_cli.json("status")
    assert [program["pid"] for program in status["programs"]] == [before[0]["pid"], done["started_pid"]]
    assert lab_cli.json("restart", "kube-apiserver", "--kill")["killed"]
    assert "is healthy" in lab_cli("restart", "kube-apiserver").stdout
    lab_cli("down")
    assert lab_cli.leftovers() == []


def test_a_restart_that_fails_shows_the_log(lab_cli: LabCommandLine, tmp_path: Path) -> None:
    lab_cli.json("up", "--profile", "api")
    (tmp_path / "assets" / "kube-apiserver").write_text("#!/bin/sh\necho 'not today' >&2\nexit 1\n")
    done = lab_cli("restart", "kube-apiserver")
    assert done.returncode == 2
    assert "stopped right after its start" in done.stderr
    assert "  | not today" in done.stderr
    assert lab_cli.json_of("status")[0]["state"] == "broken"


def test_an_unknown_program_is_not_restarted(lab_cli: LabCommandLine) -> None:
    assert "there is no lab 'lab'" in lab_cli("restart", "etcd").stderr
    lab_cli.json("up", "--profile", "api")
    unknown = lab_cli("restart", "kubelet")
    assert unknown.returncode == 2
    assert "it has: etcd, kube-apiserver" in unknown.stderr
    assert lab_cli("prometheus").stderr.startswith("fairlead: lab 'lab' has no real nodes")


def test_labs_of_earlier_versions_can_still_be_read(tmp_path: Path) -> None:
    program = LabProgram("etcd", Process(1, 2), "/log", ("/bin/etcd", "--x"), "node-1")
    lab = Lab("old", LabProfile.NODE, tmp_path, 0.0, programs=(program,), environ={"PATH": "/bin"})
    save(lab)
    read = load(tmp_path)
    assert read is not None
    assert (read.programs, read.environ) == ((program,), {"PATH": "/bin"})
    fields = lab.to_json()
    del fields["environ"]
    fields["programs"] = [{"name": "etcd", "log": "/log", "pid": 1, "started": 2}]
    lab.file.write_text(json.dumps(fields))
    read = load(tmp_path)
    assert read is not None
    assert read.programs == (LabProgram("etcd", Process(1, 2), "/log"),)


@pytest.mark.parametrize("program", ["kubelet", "containerd"])
def test_pods_survive_the_restart_of_the_kubelet_and_of_containerd(
    real_node: RealNode, node_namespace: str, program: str
) -> None:
    pod = ["run", "p", "--image=localhost/busybox:1", "--image-pull-policy=Never", "--", "sleep", "600"]
    real_node.kubectl("-n", node_namespace, *pod)
    ready = ("-n", node_namespace, "wait", "pod/p", "--for=condition=Ready", "--timeout=300s")
    real_node.kubectl(*ready)
    container = "jsonpath={.status.containerStatuses[0].containerID}"
    before = real_node.kubectl("-n", node_namespace, "get", "pod", "p", "-o", container)
    done = real_node.restart(program, kill=program == "kubelet")
    assert done.started != done.ended
    assert not real_node.lab.stopped_programs()
    real_node.kubectl(*ready)
    assert real_node.kubectl("-n", node_namespace, "get", "pod", "p", "-o", container) == before
    assert real_node.kubectl("-n", node_namespace, "exec", "p", "--", "echo", "here") == "here\n"
