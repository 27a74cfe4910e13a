"""Restarts: the same command line, well again; pods do not notice, and what cannot be restarted is said."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.lab.run.process import Process
from fairlead.lab.run.state import Lab, LabProfile, LabProgram, load, save
from tests.lab.command_line import LabCommandLine, write_fake_programs
from tests.labs import RealNode


@pytest.fixture
def door(tmp_path: Path) -> Iterator[LabCommandLine]:
    door = LabCommandLine(tmp_path / "state", write_fake_programs(tmp_path / "assets"))
    yield door
    door("down")


def test_a_restarted_program_has_the_same_command_line(door: LabCommandLine) -> None:
    before = door.json("up", "--profile", "api")["programs"]
    line = Path(f"/proc/{before[1]['pid']}/cmdline").read_bytes()
    done = door.json("restart", "kube-apiserver")
    assert (done["program"], done["ended_pid"], done["killed"]) == ("kube-apiserver", before[1]["pid"], False)
    assert Path(f"/proc/{done['started_pid']}/cmdline").read_bytes() == line
    (status,) = door.json("status")
    assert [each["pid"] for each in status["programs"]] == [before[0]["pid"], done["started_pid"]]
    assert door.json("restart", "kube-apiserver", "--kill")["killed"]
    assert "is healthy" in door("restart", "kube-apiserver").stdout
    door("down")
    assert door.leftovers() == []


def test_what_stops_again_says_its_last_words(door: LabCommandLine, tmp_path: Path) -> None:
    door("up", "--profile", "api")
    (tmp_path / "assets" / "kube-apiserver").write_text("#!/bin/sh\necho 'not today' >&2\nexit 1\n")
    done = door("restart", "kube-apiserver")
    assert done.returncode == 2
    assert "stopped as soon as it was started" in done.stderr
    assert "  | not today" in done.stderr
    assert door.json_of("status")[0]["state"] == "broken"


def test_what_cannot_be_restarted_is_refused(door: LabCommandLine) -> None:
    assert "there is no lab 'lab'" in door("restart", "etcd").stderr
    door("up", "--profile", "api")
    unknown = door("restart", "kubelet")
    assert unknown.returncode == 2
    assert "it has: etcd, kube-apiserver" in unknown.stderr
    assert door("prometheus").stderr.startswith("fairlead: lab 'lab' has no real nodes")


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
def test_pods_outlive_the_restart_of_what_runs_them(
    real_node: RealNode, node_namespace: str, program: str
) -> None:
    pod = ["run", "p", "--image=localhost/busybox:1", "--image-pull-policy=Never", "--", "sleep", "600"]
    real_node.kubectl("-n", node_namespace, *pod)
    ready = ("-n", node_namespace, "wait", "pod/p", "--for=condition=Ready", "--timeout=60s")
    real_node.kubectl(*ready)
    container = "jsonpath={.status.containerStatuses[0].containerID}"
    before = real_node.kubectl("-n", node_namespace, "get", "pod", "p", "-o", container)
    done = real_node.restart(program, kill=program == "kubelet")
    assert done.started != done.ended
    assert not real_node.lab.stopped_programs()
    real_node.kubectl(*ready)
    assert real_node.kubectl("-n", node_namespace, "get", "pod", "p", "-o", container) == before
    assert real_node.kubectl("-n", node_namespace, "exec", "p", "--", "echo", "here") == "here\n"
