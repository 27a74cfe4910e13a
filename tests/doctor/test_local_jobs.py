"""Whether jobs can run here: the state directory, its lock, and the accelerators; nothing is changed."""

import fcntl
import os
from pathlib import Path

import pytest

from fairlead.doctor.finding import Severity
from fairlead.doctor.local_jobs import JobResources, LocalJobsState, examine_local_jobs, read_local_jobs
from fairlead.ledger.place import StateDirectory
from fairlead.units import Bytes

GOOD = LocalJobsState("/state", free=Bytes(1 << 30))
MACHINE = JobResources(1.5, Bytes(8 << 30), ("NVIDIA T4",))


def only(state: LocalJobsState, resources: JobResources = MACHINE) -> tuple[Severity, str]:
    (finding,) = examine_local_jobs(state, resources)
    assert finding.check == "jobs"
    return finding.verdict, finding.text


def test_a_machine_that_runs_jobs() -> None:
    text = (
        "jobs can run here: 1.5 cores, 8.0 GiB of RAM, 1 accelerator (NVIDIA T4); their records are in /state"
    )
    assert only(GOOD) == (Severity.OK, text)
    assert only(GOOD, JobResources(2, Bytes(1 << 30)))[1].startswith(
        "jobs can run here: 2 cores, 1.0 GiB of RAM;"
    )


def test_what_keeps_jobs_from_running() -> None:
    assert only(LocalJobsState("/state", "/state: not a directory"))[0] is Severity.FAIL
    assert only(LocalJobsState("/state", free=Bytes(1000)))[0] is Severity.FAIL
    assert only(LocalJobsState("/state", holder="which process 7 holds", free=Bytes(1 << 30))) == (
        Severity.WARN,
        "jobs wait for the lock of /state, which process 7 holds",
    )
    lost = JobResources(2, Bytes(1 << 30), ("NVIDIA T4",), {"NVIDIA T4": "NVML calls the GPU lost"})
    assert only(GOOD, lost) == (Severity.WARN, "NVIDIA T4 takes no jobs: NVML calls the GPU lost")


def test_a_directory_that_is_missing_is_well_and_stays_missing(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    state = read_local_jobs({"FAIRLEAD_STATE": str(path)})
    assert (state.path, state.problem, state.holder) == (str(path), "", "")
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_place_of_the_directory_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert read_local_jobs({"FAIRLEAD_STATE": str(tmp_path / "file")}).problem


def test_a_lock_that_is_not_released_names_its_holder(tmp_path: Path) -> None:
    environ = {"FAIRLEAD_STATE": str(tmp_path / "state")}
    place = StateDirectory.open(environ)
    assert read_local_jobs(environ).holder == ""
    folder = os.open(place.path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        holder = read_local_jobs(environ, patience=0.0).holder
    finally:
        os.close(folder)
    if "does not show" in holder:
        pytest.skip("this kernel's /proc/locks does not show the lock")
    assert f"process {os.getpid()}" in holder
