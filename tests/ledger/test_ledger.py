"""The ledger: numbers, ids, tokens, marks and specifications, by one process and by several."""

import fcntl
import os
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.errors import LedgerError
from fairlead.job import LocalJob, LocalState
from fairlead.ledger import JobLedger, StateDirectory, boot_id, process_ref
from fairlead.ledger.judge import LEFT_QUEUE, NEVER_STARTED, RUNNER_KILLED
from fairlead.ledger.users import user_name
from tests.ledger.jobs import SPEC, FlushedFiles, a_job, a_ledger, a_submit, added, in_child, myself, the_dead


def test_a_job_gets_its_number_id_owner_and_boot(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    job = added(ledger, a_job(id="77", number=5, uid=4, user="nemo", boot="none"))
    assert (job.id, job.number, job.uid, job.boot) == ("1", 1, os.geteuid(), boot_id())
    assert job.user == user_name(os.geteuid())
    assert ledger.jobs() == ledger.own_jobs() == a_ledger(tmp_path).jobs() == (job,)
    assert ledger.spec("1") == SPEC
    assert ledger.skipped() == ()


@pytest.mark.parametrize(("output", "kept"), [("/out/", "/out/1.log"), ("/out", "/out"), ("", "")])
def test_an_output_in_a_folder_is_named_by_the_id(tmp_path: Path, output: str, kept: str) -> None:
    ledger = a_ledger(tmp_path)
    with ledger.locked():
        ledger.add(a_submit(), replace(SPEC, output=output))
    assert ledger.spec("1") == replace(SPEC, output=kept)


def test_records_are_public_and_all_else_is_private(tmp_path: Path) -> None:
    def add() -> None:
        os.umask(0o077)
        ledger = a_ledger(tmp_path)
        added(ledger)
        ledger.write(replace(added(ledger), state=LocalState.RUNNING))
        ledger.mark_cancelled("1")

    assert not in_child(add)
    place = StateDirectory.at(str(tmp_path / "state"))

    def modes(folder: str) -> dict[str, int]:
        return {each.name: stat.S_IMODE(each.lstat().st_mode) for each in Path(folder).iterdir()}

    assert modes(place.jobs) == {"1.json": 0o644, "2.json": 0o644}
    assert modes(place.private).items() >= {"1.spec": 0o600, "1.ready": 0o600, "1.cancel": 0o600}.items()
    assert modes(place.own) == {"jobs": 0o755, "private": 0o700, "counter": 0o644}


def test_numbers_rise_also_after_the_last_job_is_archived(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    assert [added(ledger).number for _ in range(3)] == [1, 2, 3]
    for job in ledger.jobs():
        ledger.remove(job.id)
    assert ledger.jobs() == ()
    assert os.listdir(ledger.place.private) == []
    assert added(a_ledger(tmp_path)).number == 4


def test_jobs_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    for _ in range(12):
        added(ledger)
    assert [job.number for job in ledger.jobs()] == list(range(1, 13))


def test_a_record_is_replaced_and_read_again_at_once(tmp_path: Path) -> None:
    ledger, reader = a_ledger(tmp_path), a_ledger(tmp_path)
    job = added(ledger, a_submit())
    for count in range(200):  # faster than the time stamps of files, and inodes are used again
        ledger.write(job := replace(job, reason=f"waits {count}"))
        assert reader.jobs() == (job,)


@pytest.mark.parametrize(("age", "reason"), [(0, "after"), (3600, "before")])
def test_a_record_is_read_again_unless_its_time_stamp_is_old(tmp_path: Path, age: int, reason: str) -> None:
    """Two writes within a tick of the kernel's clock may get the same inode, size and time stamp."""
    ledger = a_ledger(tmp_path)
    added(ledger, a_submit(reason="before"))
    record = Path(ledger.place.jobs, "1.json")
    stamp = time.time_ns() - age * 10**9
    os.utime(record, ns=(stamp, stamp))
    assert [job.reason for job in ledger.jobs()] == ["before"]
    record.write_text(record.read_text().replace("before", "after "))
    os.utime(record, ns=(stamp, stamp))
    assert [job.reason.strip() for job in ledger.jobs()] == [reason]


def test_additions_sweep_away_what_interrupted_ones_left(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    kept = {"history.db", "9.out", "x.spec", "supervisor.lock"}
    for name in {"999.spec", "999.ready", "998.spare", "998.next"} | kept:
        Path(ledger.place.private, name).touch()
    for _ in range(16):
        added(ledger)
    names = set(os.listdir(ledger.place.private))
    assert names >= kept | {"1.spec", "16.spec"}
    assert not [name for name in names if name.startswith("99")]


@pytest.mark.parametrize(
    ("job", "added_flushes", "written_flushes"),
    [
        (a_job(), [], []),
        (a_submit(), ["1.spec", "1.ready", "1.json", "private", "jobs"], ["1.spare", "jobs"]),
    ],
)
def test_only_a_submit_that_waits_is_flushed_to_the_disk(
    tmp_path: Path, job: LocalJob, added_flushes: list[str], written_flushes: list[str]
) -> None:
    files = FlushedFiles()
    ledger = a_ledger(tmp_path, files)
    job = added(ledger, job)
    assert files.flushed == []
    ledger.flush([job])
    assert files.flushed == added_flushes
    files.flushed.clear()
    ledger.write(job)
    assert files.flushed == written_flushes
    files.flushed.clear()
    ledger.write(replace(job, state=LocalState.RUNNING))
    ledger.write(replace(job, state=LocalState.DONE))
    ledger.remove(job.id)
    assert files.flushed == []


def test_files_are_flushed_by_the_kernel(tmp_path: Path) -> None:
    ledger = JobLedger(StateDirectory.at(str(tmp_path / "state")))
    job = added(ledger, a_submit())
    ledger.flush([job])
    assert ledger.jobs() == (job,)


def test_a_submit_that_has_ended_meanwhile_is_flushed_without_its_files(tmp_path: Path) -> None:
    files = FlushedFiles()
    ledger = a_ledger(tmp_path, files)
    jobs = [added(ledger, a_submit()) for _ in range(2)]
    ledger.remove("1")
    ledger.flush(jobs)
    assert files.flushed == ["2.spec", "2.ready", "2.json", "private", "jobs"]


@pytest.mark.parametrize("length", [0, 3000, 5000, 20_000, 10])
def test_records_grow_and_shrink(tmp_path: Path, length: int) -> None:
    ledger = a_ledger(tmp_path)
    job = added(ledger, a_submit(after=("x" * 100,) * (length // 100)))
    for size in (length, 0, length, 12_000):
        ledger.write(job := replace(job, after=("x" * 100,) * (size // 100)))
        assert a_ledger(tmp_path).jobs() == (job,)


@pytest.mark.parametrize("job", [a_job(after=("x" * 200,) * 256, exit_code=999), a_job(exit_code=-9)])
def test_a_record_that_no_reader_would_take_is_not_written(tmp_path: Path, job: LocalJob) -> None:
    ledger = a_ledger(tmp_path)
    good = added(ledger)
    with pytest.raises(LedgerError, match="job 1: its record"):
        ledger.write(replace(job, id="1", number=1))
    with pytest.raises(LedgerError, match="job 2: its record"):
        added(ledger, job)
    assert ledger.jobs() == (good,)
    assert not [name for name in os.listdir(ledger.place.private) if name.startswith("2.")]


def test_the_start_token_is_taken_once(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    job = added(ledger)
    assert not ledger.was_started(job.id)
    assert [ledger.take_start_token(job.id) for _ in range(3)] == [True, False, False]
    assert ledger.was_started(job.id)
    assert not ledger.take_start_token("99")
    assert ledger.was_started("99"), "what cannot be started any more counts as started"


def test_a_mark_lasts_as_long_as_the_job(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    job = added(ledger)
    assert not ledger.is_cancelled(job.id)
    ledger.mark_cancelled(job.id)
    ledger.mark_cancelled(job.id)
    assert a_ledger(tmp_path).is_cancelled(job.id)
    ledger.remove(job.id)
    assert not ledger.is_cancelled(job.id)
    ledger.remove(job.id)


def test_a_removed_job_is_not_written_again(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    job = added(ledger)
    ledger.remove(job.id)
    with pytest.raises(LedgerError, match="job 1 is not recorded here"):
        ledger.write(job)
    with pytest.raises(LedgerError, match="No such file"):
        ledger.spec(job.id)
    assert ledger.jobs() == ()


def test_a_writer_that_waits_while_the_job_is_removed_writes_nothing(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    job = added(ledger)
    with open(Path(ledger.place.private, "1.spec")) as spec:
        fcntl.flock(spec, fcntl.LOCK_EX)
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            spec.close()
            try:
                ledger.write(job)
            except LedgerError as error:
                os.write(writer, str(error).encode())
            finally:
                os._exit(0)
        os.close(writer)
        for _ in range(100_000):
            lines = Path("/proc/locks").read_text().splitlines()
            if any(line.split()[1:6:4] == ["->", str(pid)] for line in lines):
                break
        else:
            pytest.fail("the writer does not wait")
        ledger.remove(job.id)
    assert os.read(reader, 1000) == b"job 1 is not recorded here"
    os.close(reader)
    os.waitpid(pid, 0)
    assert ledger.jobs() == ()


def test_a_damaged_specification_is_named(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    job = added(ledger)
    Path(ledger.place.private, "1.spec").write_text("{}")
    with pytest.raises(LedgerError, match="no job-spec"):
        ledger.spec(job.id)


def test_a_job_is_added_under_the_lock_only(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    with pytest.raises(LedgerError, match="without the lock"):
        ledger.add(a_job(), SPEC)
    assert ledger.jobs() == ()


def test_the_dead_have_ended_and_hold_nothing(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    dead = the_dead()
    queued = added(ledger, a_job(runner=dead))
    killed, unstarted, living = (added(ledger) for _ in range(3))
    for job in (killed, unstarted):
        ledger.write(replace(job, state=LocalState.RUNNING, runner=dead, command=dead))
    ledger.write(replace(living, state=LocalState.RUNNING, runner=dead, command=myself()))
    assert ledger.take_start_token(killed.id)
    for _ in range(2):
        found = {job.id: (job.state, job.reason) for job in ledger.jobs()}
        assert found == {
            queued.id: (LocalState.FAILED, LEFT_QUEUE),
            killed.id: (LocalState.FAILED, RUNNER_KILLED),
            unstarted.id: (LocalState.FAILED, NEVER_STARTED),
            living.id: (LocalState.RUNNING, ""),
        }


def test_a_job_ends_with_its_process_though_its_record_stays(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    job = added(ledger)
    child = process_ref(pid)
    ledger.write(replace(job, state=LocalState.RUNNING, runner=child, command=child))
    ledger.take_start_token(job.id)
    assert [each.state for each in ledger.jobs()] == [LocalState.RUNNING]
    os.close(writer)
    os.waitpid(pid, 0)
    assert [each.state for each in ledger.jobs()] == [LocalState.FAILED]


def in_parallel(count: int, action: Callable[[int], None]) -> list[int]:
    """Run a function in several processes; return how each has ended."""
    pids = []
    for number in range(count):
        if not (pid := os.fork()):
            try:
                action(number)
            except BaseException:  # noqa: BLE001 - the status says it
                os._exit(1)
            os._exit(0)
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def test_jobs_that_several_processes_add_have_numbers_of_their_own(tmp_path: Path) -> None:
    a_ledger(tmp_path)

    def add(number: int) -> None:
        ledger = a_ledger(tmp_path)
        for count in range(12):
            job = added(ledger, a_submit(name=f"{number}"))
            if count % 3 == 0:
                ledger.remove(job.id)

    assert in_parallel(5, add) == [0] * 5
    jobs = a_ledger(tmp_path).jobs()
    assert len(jobs) == len({job.number for job in jobs}) == 5 * 8
    assert max(job.number for job in jobs) <= 60
    assert added(a_ledger(tmp_path)).number == 61


def test_one_of_several_processes_takes_the_token(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    jobs = [added(ledger) for _ in range(10)]
    log = tmp_path / "log"
    log.touch()

    def take(number: int) -> None:
        for job in jobs:
            if a_ledger(tmp_path).take_start_token(job.id):
                with log.open("a") as stream:
                    stream.write(f"{job.id}\n")

    assert in_parallel(4, take) == [0] * 4
    assert sorted(log.read_text().split(), key=int) == [job.id for job in jobs]


def test_a_reader_never_sees_half_a_record(tmp_path: Path) -> None:
    """Two processes write the same record, of changing length, while a third reads it."""
    ledger = a_ledger(tmp_path)
    job = added(ledger, a_submit())
    # Of this process: one of a writer would be over when that has written all.
    running = replace(job, state=LocalState.RUNNING, command=myself())
    ledger.write(running)

    def work(number: int) -> None:
        if number < 2:
            for count in range(60):
                ledger.write(replace(running, after=("abc",) * (count * 7 % 250)))
        else:
            for _ in range(150):
                fresh = JobLedger(ledger.place)
                assert [each.state for each in fresh.jobs()] == [LocalState.RUNNING]
                assert fresh.skipped() == ()

    assert in_parallel(3, work) == [0, 0, 0]
