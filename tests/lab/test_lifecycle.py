"""A lab's life, with programs that only look like Kubernetes: start, end, failure, kill and reaping."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.lab.run import process
from tests.lab.command_line import LabCommandLine, wait_until, write_fake_programs

CRASH = "#!/bin/sh\necho 'first words'\necho 'address already in use' >&2\nexit 1\n"
HANG = "#!/bin/sh\necho thinking\nexec sleep 600\n"


@pytest.fixture
def door(tmp_path: Path) -> Iterator[LabCommandLine]:
    door = LabCommandLine(tmp_path / "state", write_fake_programs(tmp_path / "assets"))
    yield door
    for each in door.processes():
        process.send_signal(each, signal.SIGKILL)


def with_api(door: LabCommandLine, tmp_path: Path, script: str) -> LabCommandLine:
    return LabCommandLine(door.root, write_fake_programs(tmp_path / "other", script))


def test_up_status_kubeconfig_logs_down(door: LabCommandLine) -> None:
    done = door("up", "--profile", "api")
    assert done.returncode == 0, done.stderr
    assert "lab 'lab' is up at https://127.0.0.1:" in done.stdout
    assert "etcd, kube-apiserver" in done.stderr
    assert "ready after" in done.stderr
    (status,) = door.json("status")
    assert status["state"] == "ready"
    assert [program["name"] for program in status["programs"]] == ["etcd", "kube-apiserver"]
    assert all(program["running"] for program in status["programs"])
    assert "kube-apiserver  yes" in door("status").stdout
    path = door("kubeconfig", "--path").stdout.strip()
    assert door("kubeconfig").stdout == Path(path).read_text()
    assert door("kubectl", "get", "pods", "-o", "wide").stdout == f"{path} get pods -o wide\n"
    assert door("kubectl", "--name", "lab", "-n", "x", "get").stdout == f"{path} -n x get\n"
    assert "serving" in door("logs", "kube-apiserver").stdout
    gone = door("down")
    assert gone.returncode == 0
    assert "2 processes ended" in gone.stderr
    assert door.leftovers() == []


def test_only_the_owner_can_look_into_a_lab(door: LabCommandLine) -> None:
    lab = door.json("up", "--profile", "api")
    assert Path(lab["kubeconfig"]).parent.stat().st_mode & 0o077 == 0
    door("down")


def test_an_unknown_lab_or_program_is_refused(door: LabCommandLine) -> None:
    missing = door("down")
    assert (missing.returncode, missing.stderr) == (
        2,
        "fairlead: there is no lab 'lab'\n  start one: fairlead lab up\n",
    )
    assert door("status").stdout == "no labs; start one: fairlead lab up\n"
    assert door("status", "--name", "two").returncode == 2
    door("up", "--profile", "api")
    unknown = door("logs", "kubelet")
    assert unknown.returncode == 2
    assert "it runs: etcd, kube-apiserver" in unknown.stderr
    again = door("up", "--profile", "api")
    assert again.returncode == 2
    assert "is there already" in again.stderr
    door("down")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--name", "No Way"), "cannot name a lab"),
        (("--fleet", "x.toml"), "the profile api has no nodes"),
        (("--owner", "4194305"), "no process 4194305"),
        (("--profile", "control", "--nodes", "-1"), "--nodes -1"),
        (("--profile", "control", "--nodes", "2", "--fleet", "x"), "both say which nodes"),
        (("--profile", "control", "--fleet", "none.toml"), "none.toml: No such file"),
    ],
)
def test_a_wish_that_cannot_be_granted_is_refused_before_anything_starts(
    door: LabCommandLine, arguments: tuple[str, ...], says: str
) -> None:
    done = door("up", "--profile", "api", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert not door.root.exists()


def test_a_failed_start_names_the_program_and_its_last_words(door: LabCommandLine, tmp_path: Path) -> None:
    broken = with_api(door, tmp_path, CRASH)
    done = broken("up", "--profile", "api")
    assert done.returncode == 2
    assert "kube-apiserver stopped while the lab started" in done.stderr
    assert "  | address already in use" in done.stderr
    assert broken.leftovers() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_leaves_nothing(
    door: LabCommandLine, tmp_path: Path, number: signal.Signals
) -> None:
    slow = with_api(door, tmp_path, HANG)
    with slow.start("up", "--profile", "api") as starting:
        wait_until(lambda: len(slow.processes()) >= 2)
        starting.send_signal(number)
        assert starting.wait(20) == 130
    assert slow.leftovers() == []


def test_what_a_killed_starter_left_is_reaped_by_the_next_start(door: LabCommandLine, tmp_path: Path) -> None:
    slow = with_api(door, tmp_path, HANG)
    with slow.start("up", "--profile", "api", "--name", "one") as starting:
        wait_until(lambda: len(slow.processes()) >= 2)
        busy = slow("down", "--name", "one")
        assert busy.returncode == 2
        assert "being started or ended by another process" in busy.stderr
        starting.kill()
    assert len(slow.processes()) == 2
    assert slow("status").returncode == 1
    done = door("up", "--profile", "api", "--name", "two")
    assert done.returncode == 0, done.stderr
    assert "reaped lab 'one'" in done.stderr
    assert [lab.name for lab in door.home.labs()] == ["two"]
    door("down", "--name", "two")
    assert door.leftovers() == []


def test_a_program_that_nobody_wrote_down_is_ended_too(door: LabCommandLine) -> None:
    lab = door.json("up", "--profile", "api")
    folder = Path(lab["kubeconfig"]).parent
    state = json.loads((folder / "lab.json").read_text())
    (folder / "lab.json").write_text(json.dumps({**state, "programs": []}))
    assert len(door.processes()) == 2
    assert door("down").returncode == 0
    assert door.leftovers() == []


def test_a_lab_goes_with_its_owner(door: LabCommandLine) -> None:
    with subprocess.Popen(["sleep", "60"]) as owner:
        lab = door.json("up", "--profile", "api", "--owner", str(owner.pid))
        assert lab["owner"] == owner.pid
        assert door.json("reap") == []
        owner.kill()
    assert door.json("reap") == [{"name": "lab", "processes": 2}]
    assert door("reap").stdout == "no lab to reap: every owner runs\n"
    assert door.leftovers() == []


def test_a_lab_without_an_owner_stays(door: LabCommandLine) -> None:
    door("up", "--profile", "api")
    assert door.json("reap") == []
    assert len(door.processes()) == 2
    door("down")


def test_a_program_that_died_makes_the_lab_broken(door: LabCommandLine) -> None:
    lab = door.json("up", "--profile", "api")
    os.kill(lab["programs"][0]["pid"], signal.SIGKILL)
    wait_until(lambda: door("status").returncode == 1)
    (status,) = json.loads(door("status", "-o", "json").stdout)
    assert status["state"] == "broken"
    assert [program["running"] for program in status["programs"]] == [False, True]
    assert door("down").returncode == 0
    assert door.leftovers() == []


def test_two_labs_live_side_by_side(door: LabCommandLine) -> None:
    with (
        door.start("up", "--profile", "api", "--name", "one") as one,
        door.start("up", "--profile", "api", "--name", "two") as two,
    ):
        assert one.wait(60) == 0
        assert two.wait(60) == 0
    first, second = door.json("status")
    assert first["server"] != second["server"]
    door("down", "--name", "one")
    assert [each["name"] for each in door.json("status")] == ["two"]
    assert all(program["running"] for program in door.json("status")[0]["programs"])
    door("down", "--name", "two")
    assert door.leftovers() == []


def test_of_two_that_want_the_same_name_one_gets_it(door: LabCommandLine) -> None:
    with door.start("up", "--profile", "api") as one, door.start("up", "--profile", "api") as two:
        assert sorted([one.wait(60), two.wait(60)]) == [0, 2]
    assert len(door.processes()) == 2
    door("down")
    assert door.leftovers() == []


def test_following_a_log_ends_with_the_program(door: LabCommandLine) -> None:
    lab = door.json("up", "--profile", "api")
    with door.start("logs", "kube-apiserver", "-f") as following:
        os.kill(lab["programs"][1]["pid"], signal.SIGKILL)
        assert following.wait(20) == 0
        assert following.stdout is not None
        assert "serving" in following.stdout.read()
    door("down")
