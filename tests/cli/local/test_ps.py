"""`fairlead ps`: the contract of its JSON, and a table from records that the ledger wrote."""

import fcntl
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fairlead.cli.local.cells import cpu_of
from fairlead.cli.local.ps import page
from fairlead.cli.output.terminal import Screen
from fairlead.history.store import JobHistory
from fairlead.job import Assumed, JobKind, LocalState, ProcessRef, Requested
from fairlead.ledger import JobLedger, boot_id
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests.cli.examples import Run
from tests.cli.local import worlds
from tests.cli.local.records import ended, ledger_at, queued, running
from tests.cli.local.worlds import GI, busy_status, device, job, machine, status
from tests.cli.shell.test_contract import JOB_DOCUMENT
from tests.test_pages import blocks


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobLedger:
    """Return the ledger of a state directory that the commands of this test use."""
    monkeypatch.setenv("FAIRLEAD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return ledger_at(tmp_path / "state")


def jobs_of(run: Run, *words: str) -> list[dict[str, object]]:
    code, out, err = run("ps", *words, "-o", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document) == ["jobs"]
    return list(document["jobs"])


def test_the_document_is_frozen(run: Run, ledger: JobLedger) -> None:
    wanted = Requested(cpus=2.5, memory=Bytes(GI), gpu_memory=Bytes(4 * GI))
    shares = (DeviceShare("gpu-a", Bytes(4 * GI)), DeviceShare("gpu-b"))
    first = running(ledger, name="train", requested=wanted, shares=shares)
    ended(ledger, 3, name="broken", reason="it failed")
    (shown,) = jobs_of(run)
    assert list(shown) == JOB_DOCUMENT
    times = {name: shown.pop(name) for name in ("submitted_at", "started_at")}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(each)) for each in times.values())
    assert shown == {
        "id": first.id,
        "name": "train",
        "user": first.user,
        "state": "running",
        "exit_code": None,
        "device": "gpu-a,gpu-b",
        "requested": {"cpus": 2.5, "memory_bytes": GI, "gpu_mem_bytes": 4 * GI},
        "reason": "",
        "ended_at": None,
    }


def test_more_ended_jobs_than_are_read_are_not_counted_as_all() -> None:
    many = [job(number, "failed", ended=time.time()) for number in range(200)]
    assert "at least 200 jobs of yours ended in the last hour, 200 failed" in str(
        page((), status(), hidden=many)
    )
    assert "at least" not in str(page((), status(), hidden=many[1:]))


def test_booked_cores_are_shown_as_they_were_stated() -> None:
    assert cpu_of(worlds.running(1, assumed=Assumed(cpu=40, firm_cpu=True))) == "1.5/0.04"


def test_all_lists_the_history_once(run: Run, ledger: JobLedger) -> None:
    ended(ledger, 0, name="one")
    ended(ledger, 3, name="two", reason="it failed")
    running(ledger, name="three")
    for _ in range(2):  # the first call archives what has ended
        shown = jobs_of(run, "-a")
        assert [(each["name"], each["state"], each["exit_code"]) for each in shown] == [
            ("one", "done", 0),
            ("two", "failed", 3),
            ("three", "running", None),
        ]
    assert [each.name for each in ledger.own_jobs()] == ["three"]
    assert run("ps", "-a", "-o", "name")[1].split() == ["1", "2", "3"]
    assert yaml.safe_load(run("ps", "-a", "-o", "yaml")[1]) == {"jobs": jobs_of(run, "-a")}
    table = run("ps")[1]
    assert "2 jobs of yours ended in the last hour, 1 failed: fairlead ps -a" in table


def test_a_job_that_ends_while_it_is_listed_is_listed_once(run: Run, ledger: JobLedger) -> None:
    """Its status was read while it ran; when the history is read, it is there."""
    short = running(ledger, name="short")
    ending = replace(short, state=LocalState.DONE, exit_code=0, ended=short.submitted + 1)
    JobHistory.open(ledger.place, os.environ).add(ending)
    assert [(each["id"], each["state"]) for each in jobs_of(run, "-a")] == [(short.id, "done")]
    assert jobs_of(run) == []


def test_a_queued_job_has_the_reason_of_the_plan(run: Run, ledger: JobLedger) -> None:
    queued(ledger, name="huge", requested=Requested(memory=Bytes(2**50)))
    (shown,) = jobs_of(run)
    assert (shown["state"], shown["device"], shown["started_at"]) == ("queued", None, None)
    assert shown["reason"]
    row = run("ps", "--no-headers")[1]
    assert re.match(r"1 +huge +\S+ +queued +- ", row)


def test_dead_processes_hold_nothing(run: Run, ledger: JobLedger) -> None:
    gone = ProcessRef(2**22 - 1, 1, boot_id())
    killed = running(ledger, name="killed", command=gone, runner=gone)
    assert ledger.take_start_token(killed.id)
    running(ledger, name="adopted", command=gone, runner=None, kind=JobKind.ADOPTED)
    assert jobs_of(run) == []
    shown = {each["name"]: (each["state"], each["exit_code"], each["reason"]) for each in jobs_of(run, "-a")}
    assert shown["killed"] == ("failed", None, "its runner was killed; the exit code is unknown")
    assert shown["adopted"][:2] == ("done", None)
    assert str(shown["adopted"][2]).endswith("its exit code is unknown")


def test_one_user_alone(run: Run, ledger: JobLedger) -> None:
    own = running(ledger)
    assert len(jobs_of(run, "-u", own.user)) == len(jobs_of(run, "--user", str(own.uid))) == 1
    assert jobs_of(run, "-u", "no-such-user") == []


def test_a_missing_state_directory_has_no_jobs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_STATE", str(tmp_path / "none"))
    assert run("ps") == (0, "no jobs\n", "")
    assert run("ps", "-a", "-o", "json")[1] == '{\n  "jobs": []\n}\n'
    assert not (tmp_path / "none").exists()


def test_a_directory_that_cannot_be_written_is_read(
    run: Run, ledger: JobLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(ledger, name="seen")
    (tmp_path / "state").chmod(0o777)  # not sticky: the ledger refuses to write there
    code, out, err = run("ps")
    assert code == 0
    assert " seen " in out
    assert err.startswith(f"fairlead: read-only: {tmp_path / 'state'}: ")
    assert len(err.splitlines()) == 1


def test_a_stopped_holder_of_the_lock_stops_nobody(run: Run, ledger: JobLedger, tmp_path: Path) -> None:
    ended(ledger, 0, name="over")
    handle = os.open(tmp_path / "state", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert [each["name"] for each in jobs_of(run, "-a")] == ["over"]
        assert ledger.own_jobs() != ()
    finally:
        os.close(handle)


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_table_fits_the_terminal(width: int) -> None:
    world = busy_status()
    lines = page(world.jobs, world).render(Screen(width)).splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert (
        "#1: needs 30 GiB of an accelerator; the most that is free is 12 GiB; starts in about 1m00s" in text
    )
    assert "process 77 (python3, user cy) uses 3Gi of a100:0: not started through fairlead" in text
    assert "fairlead adopt 77" in text


def test_a_record_cannot_write_to_the_terminal() -> None:
    world = status(job(1, name="\x1b[2Jevil", user="\x1b]0;", reason="\x07bell\nline"))
    shown = page(world.jobs, world, "wide").render(Screen(None))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert len(shown.splitlines()) == 2


def test_what_a_row_says() -> None:
    world = busy_status()
    rows = [re.split(r"  +", line) for line in page(world.jobs, world).render(Screen(None)).splitlines()]
    assert rows[1] == ["1", "train", "ana", "running", "a100:0", "8/10Gi", "1.5", "2Gi", "30s", "-"]
    assert rows[3][4:6] == ["a100:1", "30Gi/whole"]
    assert rows[4][:9] == ["4", "big", "ana", "queued", "-", "30Gi", "-", "-", "1m00s"]
    done = status(job(1, "failed", exit_code=3, started=10.0, ended=75.0, reason="it failed"))
    row = page(done.jobs, done).render(Screen(None)).splitlines()[1]
    assert row.endswith("1m05s  exit code 3; it failed")
    assert LocalState.FAILED.value in row


def test_the_page_shows_what_is_printed() -> None:
    world = busy_status()
    assert f"$ fairlead ps\n{page(world.jobs, world)}\n" in blocks("docs/reference/ps.md")
    document = blocks("docs/reference/ps.md")[-1].partition("\n")[2]
    assert list(json.loads(document)["jobs"][0]) == JOB_DOCUMENT


def test_a_stated_size_that_nothing_enforces_is_said_in_the_table_alone() -> None:
    size = Bytes(4 * GI)
    stated = {"requested": Requested(gpu_memory=size), "shares": (DeviceShare("gpu-0", size),)}
    held = job(1, "running", **stated)
    for listed, words in (
        ((), ""),
        (None, "its size is not enforced on gpu-0: the driver lists no processes"),
    ):
        seen = status(held, view=machine(device("gpu-0", 0, processes=listed)))
        shown = page([held], seen).render(Screen(None))
        assert ("not enforced" in shown) == bool(words)
        assert words in shown
        assert seen.reason(held) == ""
