"""Machines that work on jobs: a device that has the inputs, workers beside the store, several of each."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlead.executors.checkpoint import CheckpointHook
from fairlead.submission.along import read_files, upload_files
from fairlead.submission.feeder import Feeder
from fairlead.submission.finding import FilesHere
from fairlead.submission.request import JobRequest
from fairlead.submission.sources import below_folder
from fairlead.submission.working import JobWork, JobWorkers, WorkSite
from tests.executors.test_checkpoint import COUNTER, SAVE
from tests.submission.worlds import PAUSE, Session, session, until

_FUNCTION = """
def upper(path):
    text = open(path).read()
    if text == "bad":
        raise ValueError("a bad input")
    return text.upper()
"""


def write_inputs(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.txt").write_text(f"input {number}")


@contextmanager
def fed(shop: Session, job: str, folder: Path) -> Iterator[Feeder]:
    """Feed a job during the block."""
    feeder = Feeder(shop.door, job, str(folder), below_folder(str(folder)), PAUSE)
    feeder.start()
    try:
        yield feeder
    finally:
        feeder.stop()
    assert feeder.error is None


@contextmanager
def device(shop: Session, job: str, folder: Path, state: Path) -> Iterator[JobWork]:
    """Let the device that feeds a job work on it during the block."""
    work = JobWork(
        shop.door, WorkSite("device", "pi", str(state), 1), job, FilesHere(str(folder)), "local", print
    )
    work.start()
    try:
        yield work
    finally:
        work.stop()


@contextmanager
def machine(shop: Session, site: WorkSite) -> Iterator[list[str]]:
    """Let a machine work on all jobs during the block; yield what it says."""
    said: list[str] = []
    workers, ended = JobWorkers(shop.door, site, said.append), threading.Event()

    def look() -> None:
        while not ended.is_set():
            workers.look()
            ended.wait(PAUSE)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield said
    finally:
        ended.set()
        thread.join()
        workers.stop()


def beside(shop: Session, folder: Path, name: str = "pod") -> WorkSite:
    """Return a worker beside the store."""
    return WorkSite("pod", name, str(folder / name), 1, str(shop.store.root))


def results(shop: Session, job: str) -> dict[str, str]:
    """Return the results of a job."""
    with shop.door.client() as client:
        return {each["path"]: each["worker"] for each in client.results(job).items}


def is_done(shop: Session, job: str) -> bool:
    return bool(shop.job(job)["state"] == "done")


@pytest.mark.parametrize("kind", ["command", "function"])
def test_a_device_and_a_pod_share_a_job(tmp_path: Path, kind: str) -> None:
    write_inputs(tmp_path / "in", 60)
    (tmp_path / "app.py").write_text(_FUNCTION)
    (tmp_path / "upper.sh").write_text("sleep 0.02; tr a-z A-Z < $1")
    files = read_files([str(tmp_path / "app.py"), str(tmp_path / "upper.sh")])
    command = ("sh", "{with}/upper.sh", "{input}") if kind == "command" else ("app.py:upper",)
    taken = tuple(each for each, _ in files)
    with session(tmp_path / "store") as shop, shop.door.client() as client:
        upload_files(client, files)
        job = shop.submit(JobRequest(kind, command, policy="split", files=taken, feeder="pi"))
        with (
            machine(shop, beside(shop, tmp_path)),
            fed(shop, job, tmp_path / "in"),
            device(shop, job, tmp_path / "in", tmp_path / "pi") as work,
        ):
            until(lambda: is_done(shop, job))
        assert work.error is None
        found = results(shop, job)
        until(lambda: not any(each["unplaced"] for each in client.results(job).items))
    out = shop.store.root / "jobs" / job / "out"
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        f"{number}.txt": f"INPUT {number}" for number in range(60)
    }
    assert set(found.values()) <= {"pi", "pod"}
    assert "pi" in found.values()
    assert not list((tmp_path / "pi").iterdir()), "nothing is left of a job that has ended"


def test_a_machine_without_the_program_leaves_the_job_to_others(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in", 5)
    with session(tmp_path / "store") as shop:
        job = shop.submit(JobRequest("command", ("no-such-program", "{input}")))
        with machine(shop, beside(shop, tmp_path)) as said, fed(shop, job, tmp_path / "in"):
            until(lambda: any("not worked on here" in line for line in said))
            assert shop.job(job)["counts"]["failed"] == 0
    assert "no-such-program: there is no such program here" in "".join(said)


def test_failed_inputs_are_named_and_the_others_done(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in", 4)
    (tmp_path / "in" / "2.txt").write_text("bad")
    (tmp_path / "app.py").write_text(_FUNCTION)
    files = read_files([str(tmp_path / "app.py")])
    with session(tmp_path / "store") as shop, shop.door.client() as client:
        upload_files(client, files)
        job = shop.submit(JobRequest("function", ("app.py:upper",), files=(files[0][0],)))
        with machine(shop, beside(shop, tmp_path)), fed(shop, job, tmp_path / "in"):
            until(lambda: is_done(shop, job))
        (failure,) = client.failures(job).items
        assert (failure["path"], failure["error"]) == ("2.txt", "ValueError: a bad input")
        assert len(results(shop, job)) == 3


def test_several_machines_work_on_several_jobs(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in", 12)
    with session(tmp_path / "store") as shop:
        jobs = [shop.submit(JobRequest("command", ("cat", "{input}"), policy="split")) for _ in range(2)]
        only = shop.submit(JobRequest("command", ("cat", "{input}"), on=("pod",)))
        with (
            machine(shop, beside(shop, tmp_path, "pod-1")),
            machine(shop, WorkSite("device", "cam", str(tmp_path / "cam"), 2)),
            fed(shop, jobs[0], tmp_path / "in"),
            fed(shop, jobs[1], tmp_path / "in"),
            fed(shop, only, tmp_path / "in"),
        ):
            until(lambda: all(is_done(shop, job) for job in (*jobs, only)))
        assert set(results(shop, only).values()) == {"pod-1"}
        assert all(len(results(shop, job)) == 12 for job in jobs)


def test_an_input_that_is_given_up_goes_on_elsewhere(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one").write_text(f"one two three gate {gate} six")
    for name, text in (("count.py", COUNTER), ("save.py", SAVE)):
        (tmp_path / name).write_text(text)
    files = read_files([str(tmp_path / name) for name in ("count.py", "save.py")])
    python, log = sys.executable, str(tmp_path / "log")
    program = (python, "{with}/count.py", "{input}", "{checkpoint}", log)
    hook = CheckpointHook((python, "{with}/save.py", "{pid}", "{checkpoint}"), (*program, "{checkpoint}"))
    request = JobRequest(
        "command", program, files=tuple(each for each, _ in files), checkpoint=hook, feeder="pi"
    )
    with session(tmp_path / "store") as shop, shop.door.client() as client:
        upload_files(client, files)
        job = shop.submit(request)
        with fed(shop, job, tmp_path / "in"):
            with device(shop, job, tmp_path / "in", tmp_path / "pi"):
                until(Path(f"{gate}.reached").exists)
            gate.touch()
            with machine(shop, beside(shop, tmp_path)):
                until(lambda: is_done(shop, job))
        assert results(shop, job) == {"one": "pod"}
    assert (tmp_path / "log").read_text() == "begins at 0\nbegins at 3\n"
