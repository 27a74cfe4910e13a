"""A worker on a job of a real store: commands, failures, large results, a kill, a cut link."""

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.reproduce.emulation.relay import relay
from fairlead.splitwork.journal import ResultJournal
from fairlead.splitwork.task import FinishedInput, InputFailure, LeasedInput, Made, WorkTask
from tests.splitwork.worlds import ask, job_of, results, worker
from tests.store.stores import store

UPPER = ("sh", "-c", 'tr a-z A-Z < "$1"', "sh", "{input}")
INPUTS = {f"d{number % 3}/f {number}": f"content {number}".encode() for number in range(12)}


def test_a_command_runs_on_each_input(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        job = job_of(where, INPUTS)
        assert worker(where, job, tmp_path / "w", command=UPPER).run() == "done"
        assert results(where, job, 12) == {path: content.upper() for path, content in INPUTS.items()}
        left = sorted(path.name for path in (tmp_path / "w").iterdir())
        assert left == ["finished.jsonl"]
        assert (tmp_path / "w" / left[0]).read_text() == ""


def test_a_command_that_names_its_output_writes_it(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        job = job_of(where, {"a{output}": b"x"})
        words = ("cp", "{input}", "{output}")
        assert worker(where, job, tmp_path / "w", command=words).run() == "done"
        assert results(where, job, 1) == {"a{output}": b"x"}


def test_failures_say_why_and_are_done_again_alone(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        job = job_of(where, {"good": b"1", "bad": b"2"})
        fails = ("sh", "-c", 'test "$(cat "$1")" = 1 || { echo no such layer >&2; exit 3; }', "sh", "{input}")
        assert worker(where, job, tmp_path / "w", command=fails).run() == "done"
        failed = ask(where, "GET", f"/{job}/failures")["failures"]
        assert [(each["path"], each["exit"], each["error"]) for each in failed] == [
            ("bad", 3, "no such layer")
        ]
        assert ask(where, "POST", f"/{job}/again", {})["again"] == 1
        assert worker(where, job, tmp_path / "w2").run() == "done"
        assert ask(where, "GET", f"/{job}")["counts"]["failed"] == 0


def test_a_fetched_input_keeps_the_end_of_its_name(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        job = job_of(where, {"a b/c.jpg": b"1"})
        assert worker(where, job, tmp_path / "w", command=("basename", "{input}")).run() == "done"
        assert results(where, job, 1)["a b/c.jpg"].endswith(b"-c.jpg\n")


def test_an_input_that_another_worker_has_done_is_given_up(tmp_path: Path) -> None:
    first = ("sh", "-c", 'mkdir "$2" && exec sleep 600; cat "$1"', "sh", "{input}", str(tmp_path / "begun"))
    with store(tmp_path) as where:
        job = job_of(where, {"a": b"1", "b": b"2"})
        thread = threading.Thread(target=worker(where, job, tmp_path / "w", command=first).run)
        thread.start()
        while not (tmp_path / "begun").exists():
            threading.Event().wait(0.01)
        done = {
            "input": 1,
            "lease": 1,
            "digest": hashlib.sha256(b"x").hexdigest(),
            "size": 1,
            "inline": "eA==",
        }
        ask(where, "POST", f"/{job}/exchange", {"worker": "other", "results": [done]})
        thread.join()
        assert results(where, job, 2) == {"a": b"x", "b": b"2"}


def test_a_large_result_is_uploaded(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        job = job_of(where, {"large": b"x" * 300_000})
        assert worker(where, job, tmp_path / "w").run() == "done"
        assert results(where, job, 1) == {"large": b"x" * 300_000}
        assert list((where.root / "jobs" / job).glob("staged/*")) == []


def test_several_slots_and_several_workers_share_a_job(tmp_path: Path) -> None:
    inputs = {f"f{number}": str(number).encode() for number in range(60)}
    with store(tmp_path) as where:
        job = job_of(where, inputs)
        crew = [worker(where, job, tmp_path / f"w{each}", [Copies() for _ in range(3)]) for each in range(3)]
        threads = [threading.Thread(target=each.run) for each in crew]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results(where, job, 60) == inputs
        assert sum(each["done"] for each in ask(where, "GET", f"/{job}")["workers"]) == 60


class Copies:
    """Returns the content of an input."""

    def run(self, task: WorkTask, target: str) -> Made:
        """Return it."""
        del target
        return Path(task.source).read_bytes()

    def interrupt(self) -> None:
        """Do nothing."""

    def drop(self, task: WorkTask) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def test_what_a_killed_worker_had_finished_is_handed_in_by_the_next(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        job = job_of(where, {"a": b"1", "b": b"2"})
        reply = ask(where, "POST", f"/{job}/exchange", {"worker": "w", "has": "all", "want": True})
        lease = LeasedInput(**reply["leases"][0])
        (tmp_path / "w").mkdir()
        journal = ResultJournal(str(tmp_path / "w" / "finished.jsonl"))
        digest = "4b227777d4dd1fc61c6f884f48641d02b4d121d3fd328cb08b5531fcacdabf8a"
        journal.add(FinishedInput(lease, 1.0, 1.0, digest, 1, b"4"))
        journal.close()
        with (tmp_path / "w" / "finished.jsonl").open("a") as file:
            file.write('{"lease": {"inp')
        assert worker(where, job, tmp_path / "w").run() == "done"
        assert results(where, job, 2)[lease.path] == b"4"


def test_without_a_link_it_goes_on_and_hands_in_later(tmp_path: Path) -> None:
    inputs = {f"f{number}": str(number).encode() for number in range(30)}
    with store(tmp_path) as where, relay(("127.0.0.1", where.port)) as link:
        job = job_of(where, inputs)
        url = f"http://127.0.0.1:{link.address[1]}/"
        said: list[str] = []

        def cut() -> None:
            link.is_away = True
            link.cut()

        gate = Gated(cut)
        work = worker(where, job, tmp_path / "w", [gate], url=url, say=said.append)
        thread = threading.Thread(target=work.run)
        thread.start()
        assert gate.reached.wait(30)
        while not work.problem:
            threading.Event().wait(0.01)
        link.is_away = False
        gate.go_on.set()
        thread.join(30)
        assert results(where, job, 30) == inputs
        assert "the work goes on" in said[0]


class Gated(Copies):
    """Cuts the link in the middle of the fifth input, and waits there."""

    def __init__(self, cut: Callable[[], None]) -> None:
        self._cut = cut
        self.reached, self.go_on = threading.Event(), threading.Event()
        self._count = 0

    def run(self, task: WorkTask, target: str) -> Made:
        """Return the content."""
        self._count += 1
        if self._count == 5:
            self._cut()
            self.reached.set()
            self.go_on.wait(30)
        return super().run(task, target)


def test_a_cancelled_job_ends_what_runs(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        job = job_of(where, {"a": b"1"})
        work = worker(where, job, tmp_path / "w", command=("sleep", "600"))
        states: list[str] = []
        thread = threading.Thread(target=lambda: states.append(work.run()))
        thread.start()
        while not ask(where, "GET", f"/{job}")["counts"]["running"]:
            threading.Event().wait(0.01)
        ask(where, "POST", f"/{job}/cancel", {})
        thread.join(30)
        assert states == ["cancelled"]


def test_a_stopped_worker_gives_its_inputs_back(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        job = job_of(where, {"a": b"1"})
        work = worker(where, job, tmp_path / "w", command=("sleep", "600"))
        thread = threading.Thread(target=work.run)
        thread.start()
        while not ask(where, "GET", f"/{job}")["counts"]["running"]:
            threading.Event().wait(0.01)
        work.stop()
        thread.join(30)
        counts = ask(where, "GET", f"/{job}")["counts"]
        assert (counts["running"], counts["pending"]) == (0, 1)
        assert worker(where, job, tmp_path / "w2").run() == "done"


@pytest.mark.parametrize("broken", ["gone", "other"])
def test_an_input_whose_bytes_are_not_its_own_fails(tmp_path: Path, broken: str) -> None:
    with store(tmp_path) as where:
        job = job_of(where, {"a": b"1"})
        path = where.root / "jobs" / job / "in" / "a"
        path.unlink()
        if broken == "other":
            path.write_bytes(b"2")
        assert worker(where, job, tmp_path / "w").run() == "done"
        assert ask(where, "GET", f"/{job}")["counts"]["failed"] == 1


def test_the_journal_keeps_failures_and_files(tmp_path: Path) -> None:
    journal = ResultJournal(str(tmp_path / "j"))
    lease = LeasedInput(1, 2, "p", "0" * 64, 3, "/w")
    (tmp_path / "file").write_bytes(b"x")
    kept = [
        FinishedInput(lease, 1.0, 2.0, failure=InputFailure(3, "why")),
        FinishedInput(LeasedInput(2, 2, "q", "0" * 64, 3, ""), 1.0, 2.0, "d", 1, file=str(tmp_path / "file")),
    ]
    for each in kept:
        journal.add(each)
    assert journal.load() == kept
    (tmp_path / "file").unlink()
    assert journal.load() == kept[:1]
    journal.clear()
    assert journal.load() == []
    journal.close()
