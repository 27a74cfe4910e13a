"""`fairlead adopt`: a real process becomes a job, and every process that cannot be one is refused."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.errors import FairleadError
from fairlead.job import JobKind, LocalState
from fairlead.ledger import JobLedger, process_ref
from fairlead.local.adoption import adopt_process, adoption_problem, held_shares, is_fairlead
from fairlead.local.processes import process_name
from fairlead.local.status import foreign_processes, with_adopted_use
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.cli.examples import Run
from tests.cli.local.records import ledger_at, running
from tests.cli.local.worlds import GI, busy_status, device, job, machine
from tests.cli.local.worlds import running as running_job


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobLedger:
    """Return the ledger of a state directory that the commands of this test use."""
    monkeypatch.setenv("FAIRLEAD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return ledger_at(tmp_path / "state")


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process that waits for its input to end."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        yield process


def test_a_process_is_a_job_until_it_ends(
    run: Run, ledger: JobLedger, child: "subprocess.Popen[bytes]"
) -> None:
    code, out, err = run("adopt", str(child.pid), "--name", "mine")
    assert (code, err) == (0, "")
    assert out == f"process {child.pid} is job 1 (mine): it uses no accelerator; its cores and RAM count\n"
    (adopted,) = ledger.own_jobs()
    assert (adopted.kind, adopted.state, adopted.runner) == (JobKind.ADOPTED, LocalState.RUNNING, None)
    assert adopted.command == process_ref(child.pid)
    assert adopted.measured is not None
    assert 0 < adopted.measured.memory == adopted.assumed.memory
    (shown,) = json.loads(run("ps", "-o", "json")[1])["jobs"]
    assert (shown["name"], shown["state"], shown["device"]) == ("mine", "running", "cpu")
    assert run("adopt", str(child.pid))[2].startswith(f"fairlead: process {child.pid} belongs to job 1\n")
    child.communicate()
    assert json.loads(run("ps", "-o", "json")[1])["jobs"] == []
    (shown,) = json.loads(run("ps", "-a", "-o", "json")[1])["jobs"]
    assert (shown["state"], shown["exit_code"]) == ("done", None)
    assert shown["reason"].endswith("its exit code is unknown")


def test_the_shares_are_what_the_driver_reports(ledger: JobLedger, child: "subprocess.Popen[bytes]") -> None:
    view = machine(device("gpu-a", 24, child.pid, 77), device("gpu-b", 1, 77), device("gpu-c", 1, child.pid))
    with ledger.locked():
        adopted = adopt_process(ledger, view, child.pid)
    assert adopted.name == "cat"
    assert adopted.shares == (DeviceShare("gpu-a", Bytes(GI)), DeviceShare("gpu-c", Bytes(GI)))
    assert adopted.assumed.gpus == 2
    more = machine(device("gpu-a", 24, child.pid))
    assert held_shares(more, {child.pid}, Bytes(4 * GI)) == (DeviceShare("gpu-a", Bytes(4 * GI)),)
    assert held_shares(more, {child.pid}, Bytes(1)) == (DeviceShare("gpu-a", Bytes(GI)),)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("4194303",), 1, "fairlead: no process 4194303"),
        (("{self}",), 1, "fairlead: process {self} is fairlead itself"),
        pytest.param(
            ("1",),
            1,
            "fairlead: process 1 starts every other one, and uses no accelerator",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="process 1 is another user's"),
        ),
        (("2x",), 2, "fairlead: 2x: not a process id"),
        (("0",), 2, "fairlead: 0: not a process id"),
        ((), 2, "fairlead: name one process to adopt, or --list"),
        (("1", "--list"), 2, "fairlead: name one process to adopt, or --list"),
        (("{child}", "--gpu-mem", "much"), 2, "fairlead: --gpu-mem much: not a size"),
        (("{child}", "--name", "a,b"), 2, "fairlead: --name 'a,b': not a name"),
        (("{child}", "--gpu-mem", "1Gi"), 2, "fairlead: --gpu-mem: process {child} uses no accelerator"),
    ],
)
def test_a_process_that_cannot_be_adopted(
    run: Run,
    ledger: JobLedger,
    child: "subprocess.Popen[bytes]",
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    names = {"self": os.getpid(), "child": child.pid}
    found = run("adopt", *(word.format(**names) for word in words))
    assert found[:2] == (code, "")
    assert found[2].startswith(message.format(**names))
    assert ledger.own_jobs() == ()


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("/opt/bin/fairlead run -- true", True),
        ("/usr/bin/python3 /opt/bin/fairlead top", True),
        ("python -I -m fairlead.local.supervisor", True),
        ("python3.11 -m fairlead ps", True),
        ("python train.py fairlead", False),
        ("python -m torch.distributed fairlead", False),
        ("vim fairlead", False),
        ("python -", False),
        ("", False),
    ],
)
def test_fairlead_itself_is_known_by_its_command_line(line: str, ours: bool) -> None:
    assert is_fairlead(line.split()) is ours


def test_a_process_around_a_job_is_refused() -> None:
    jobs = (running_job(1), job(2, runner=running_job(5).command))
    children = {10: (11,), 11: (4001,), 4001: (20,), 30: (4005,)}
    assert adoption_problem(20, jobs, children) == "process 20 belongs to job 1"
    assert adoption_problem(10, jobs, children) == "process 10 contains the processes of job 1"
    assert adoption_problem(30, jobs, children) == "process 30 contains the processes of job 2"
    assert adoption_problem(40, jobs, children) == ""


def test_foreign_processes_are_those_of_no_job() -> None:
    view = machine(device("gpu-a", 9, 4001, 50, 60, 70), device("gpu-b", 9, 70))
    found = foreign_processes(
        view,
        busy_status().jobs,
        children={4001: (50,)},
        describe=lambda pid: (f"p{pid}", 1000, "ana"),
        groups=lambda pid: (4002,) if pid == 60 else (pid,),
    )
    assert [(each.pid, each.name, each.total) for each in found] == [(70, "p70", 2 * GI)]
    assert foreign_processes(machine(), (), {}, lambda pid: ("", None, ""), lambda pid: ()) == ()


def test_a_server_of_mps_is_no_foreign_process_and_cannot_be_adopted(
    ledger: JobLedger, tmp_path: Path
) -> None:
    program = tmp_path / "nvidia-cuda-mps-server"
    program.write_text("#!/bin/sh\necho started\nread line\n")
    program.chmod(0o700)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()  # only then the kernel has surely named the process after its program
        view = machine(device("gpu-a", 9, server.pid, 4321))
        names = {server.pid: process_name(server.pid), 4321: "python3"}
        found = foreign_processes(view, (), {}, lambda pid: (names[pid], 1000, "ana"), lambda pid: ())
        assert [each.pid for each in found] == [4321]
        with ledger.locked(), pytest.raises(FairleadError, match="is a part of MPS"):
            adopt_process(ledger, view, server.pid)
        server.communicate(b"\n")


def test_an_adopted_job_shows_the_figures_of_the_driver() -> None:
    adopted = running_job(1, "gpu-a", 8, 10, kind=JobKind.ADOPTED)
    (fresh,) = with_adopted_use((adopted,), machine(device("gpu-a", 9, 4001)))
    assert fresh.measured is not None
    assert fresh.measured.gpu_memory == {"gpu-a": GI}
    assert with_adopted_use((running_job(1, "gpu-a", 8, 10),), machine(device("gpu-a", 9, 4001))) == (
        running_job(1, "gpu-a", 8, 10),
    )


def test_the_list_of_candidates_is_a_list(run: Run, ledger: JobLedger) -> None:
    running(ledger)
    code, out, err = run("adopt", "--list", "-o", "json")
    assert (code, err) == (0, "")
    assert list(json.loads(out)) == ["processes"]
    assert run("adopt", "--list")[0] == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may adopt any process")
def test_a_process_of_another_user_is_refused(run: Run, ledger: JobLedger) -> None:
    assert run("adopt", "1")[2].startswith("fairlead: process 1 belongs to root\n")
