"""The life of a lab with fake programs: start, end, failure, kill and reaping."""

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
def lab_cli(tmp_path: Path) -> Iterator[LabCommandLine]:
    lab_cli = LabCommandLine(tmp_path / "state", write_fake_programs(tmp_path / "assets"))
    yield lab_cli
    for started in lab_cli.processes():
        process.send_signal(started, signal.SIGKILL)


def with_api_server(lab_cli: LabCommandLine, tmp_path: Path, script: str) -> LabCommandLine:
    return LabCommandLine(lab_cli.root, write_fake_programs(tmp_path / "other", script))


def test_up_status_kubeconfig_logs_down(lab_cli: LabCommandLine) -> None:
    done = lab_cli("up", "--profile", "api")
    assert done.returncode == 0, done.stderr
    assert "lab 'lab' is up at https://127.0.0.1:" in done.stdout
    assert "etcd, kube-apiserver" in done.stderr
    assert "ready after" in done.stderr
    (status,) = lab_cli.json("status")
    assert status["state"] == "ready"
    assert [program["name"] for program in status["programs"]] == ["etcd", "kube-apiserver"]
    assert all(program["running"] for program in status["programs"])
    assert "kube-apiserver  yes" in lab_cli("status").stdout
    path = lab_cli("kubeconfig", "--path").stdout.strip()
    assert lab_cli("kubeconfig").stdout == Path(path).read_text()
    assert lab_cli("kubectl", "get", "pods", "-o", "wide").stdout == f"{path} get pods -o wide\n"
    assert lab_cli("kubectl", "--name", "lab", "-n", "x", "get").stdout == f"{path} -n x get\n"
    assert "serving" in lab_cli("logs", "kube-apiserver").stdout
    gone = lab_cli("down")
    assert gone.returncode == 0
    assert "2 processes ended" in gone.stderr
    assert lab_cli.leftovers() == []


def test_only_the_owner_can_read_the_folder_of_a_lab(lab_cli: LabCommandLine) -> None:
    lab = lab_cli.json("up", "--profile", "api")
    assert Path(lab["kubeconfig"]).parent.stat().st_mode & 0o077 == 0
    lab_cli("down")


def test_an_unknown_lab_or_program_is_an_error(lab_cli: LabCommandLine) -> None:
    missing = lab_cli("down")
    assert (missing.returncode, missing.stderr) == (
        2,
        "fairlead: there is no lab 'lab'\n  start one: fairlead lab up\n",
    )
    assert lab_cli("status").stdout == "no labs; start one: fairlead lab up\n"
    assert lab_cli("status", "--name", "two").returncode == 2
    lab_cli.json("up", "--profile", "api")
    unknown = lab_cli("logs", "kubelet")
    assert unknown.returncode == 2
    assert "it runs: etcd, kube-apiserver" in unknown.stderr
    again = lab_cli("up", "--profile", "api")
    assert again.returncode == 2
    assert "exists already" in again.stderr
    lab_cli("down")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--name", "No Way"), "cannot name a lab"),
        (("--fleet", "x.toml"), "the profile api has no nodes"),
        (("--owner", "4194305"), "--owner 4194305: no such process"),
        (("--profile", "control", "--nodes", "-1"), "--nodes -1"),
        (("--profile", "control", "--nodes", "2", "--fleet", "x"), "both define the nodes"),
        (("--profile", "control", "--fleet", "none.toml"), "none.toml: No such file"),
    ],
)
def test_an_impossible_spec_is_rejected_before_anything_starts(
    lab_cli: LabCommandLine, arguments: tuple[str, ...], message: str
) -> None:
    done = lab_cli("up", "--profile", "api", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not lab_cli.root.exists()


def test_a_failed_start_names_the_program_and_shows_its_log(lab_cli: LabCommandLine, tmp_path: Path) -> None:
    broken = with_api_server(lab_cli, tmp_path, CRASH)
    done = broken("up", "--profile", "api")
    assert done.returncode == 2
    assert "kube-apiserver stopped while the lab started" in done.stderr
    assert "  | address already in use" in done.stderr
    assert broken.leftovers() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_leaves_nothing(
    lab_cli: LabCommandLine, tmp_path: Path, number: signal.Signals
) -> None:
    slow = with_api_server(lab_cli, tmp_path, HANG)
    with slow.start("up", "--profile", "api") as starting:
        wait_until(lambda: len(slow.processes()) >= 2)
        starting.send_signal(number)
        assert starting.wait(20) == 130
    assert slow.leftovers() == []


def test_the_next_start_reaps_the_lab_of_a_killed_starter(lab_cli: LabCommandLine, tmp_path: Path) -> None:
    slow = with_api_server(lab_cli, tmp_path, HANG)
    with slow.start("up", "--profile", "api", "--name", "one") as starting:
        wait_until(lambda: len(slow.processes()) >= 2)
        busy = slow("down", "--name", "one")
        assert busy.returncode == 2
        assert "being started or ended by another process" in busy.stderr
        starting.kill()
    assert len(slow.processes()) == 2
    assert slow("status").returncode == 1
    done = lab_cli("up", "--profile", "api", "--name", "two")
    assert done.returncode == 0, done.stderr
    assert "ended the unused lab 'one'" in done.stderr
    assert [lab.name for lab in lab_cli.home.labs()] == ["two"]
    lab_cli("down", "--name", "two")
    assert lab_cli.leftovers() == []


def test_a_program_missing_from_the_state_file_is_ended_too(lab_cli: LabCommandLine) -> None:
    lab = lab_cli.json("up", "--profile", "api")
    folder = Path(lab["kubeconfig"]).parent
    state = json.loads((folder / "lab.json").read_text())
    (folder / "lab.json").write_text(json.dumps({**state, "programs": []}))
    assert len(lab_cli.processes()) == 2
    assert lab_cli("down").returncode == 0
    assert lab_cli.leftovers() == []


def test_a_lab_is_reaped_once_its_owner_has_ended(lab_cli: LabCommandLine) -> None:
    with subprocess.Popen(["sleep", "60"]) as owner:
        lab = lab_cli.json("up", "--profile", "api", "--owner", str(owner.pid))
        assert lab["owner"] == owner.pid
        assert lab_cli.json("reap") == []
        owner.kill()
    assert lab_cli.json("reap") == [{"name": "lab", "processes": 2}]
    assert lab_cli("reap").stdout == "no lab to reap: every owner runs\n"
    assert lab_cli.leftovers() == []


def test_a_lab_without_an_owner_is_not_reaped(lab_cli: LabCommandLine) -> None:
    lab_cli.json("up", "--profile", "api")
    assert lab_cli.json("reap") == []
    assert len(lab_cli.processes()) == 2
    lab_cli("down")


def test_a_lab_with_a_dead_program_is_broken(lab_cli: LabCommandLine) -> None:
    lab = lab_cli.json("up", "--profile", "api")
    os.kill(lab["programs"][0]["pid"], signal.SIGKILL)
    wait_until(lambda: lab_cli("status").returncode == 1)
    (status,) = json.loads(lab_cli("status", "-o", "json").stdout)
    assert status["state"] == "broken"
    assert [program["running"] for program in status["programs"]] == [False, True]
    assert lab_cli("down").returncode == 0
    assert lab_cli.leftovers() == []


def test_two_labs_run_side_by_side(lab_cli: LabCommandLine) -> None:
    with (
        lab_cli.start("up", "--profile", "api", "--name", "one") as one,
        lab_cli.start("up", "--profile", "api", "--name", "two") as two,
    ):
        assert one.wait(60) == 0
        assert two.wait(60) == 0
    first, second = lab_cli.json("status")
    assert first["server"] != second["server"]
    lab_cli("down", "--name", "one")
    assert [lab["name"] for lab in lab_cli.json("status")] == ["two"]
    assert all(program["running"] for program in lab_cli.json("status")[0]["programs"])
    lab_cli("down", "--name", "two")
    assert lab_cli.leftovers() == []


def test_of_two_concurrent_starts_with_one_name_one_fails(lab_cli: LabCommandLine) -> None:
    with lab_cli.start("up", "--profile", "api") as one, lab_cli.start("up", "--profile", "api") as two:
        assert sorted([one.wait(60), two.wait(60)]) == [0, 2]
    assert len(lab_cli.processes()) == 2
    lab_cli("down")
    assert lab_cli.leftovers() == []


def test_following_a_log_ends_with_the_program(lab_cli: LabCommandLine) -> None:
    lab = lab_cli.json("up", "--profile", "api")
    with lab_cli.start("logs", "kube-apiserver", "-f") as following:
        os.kill(lab["programs"][1]["pid"], signal.SIGKILL)
        assert following.wait(20) == 0
        assert following.stdout is not None
        assert "serving" in following.stdout.read()
    lab_cli("down")
