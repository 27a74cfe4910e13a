"""The coordinator: each input has one result, whatever is handed in again, and whenever it ends."""

from pathlib import Path

import pytest

from fairlead.store.jobs.live import MOST_PENDING
from fairlead.store.jobs.requests import parse_exchange, parse_inputs
from fairlead.store.jobs.spec import parse_spec
from fairlead.store.refusal import RefusedError
from tests.store.jobs.crew import Bench, result, stated


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return a coordinator of its own."""
    return Bench(tmp_path / "jobs.sqlite")


def test_a_job_is_done_when_each_input_has_a_result(bench: Bench) -> None:
    name = bench.job(100)
    assert bench.work(name, "pod") == 100
    document = bench.coordinator.job(name)
    assert document["state"] == "done"
    assert document["counts"] == {"inputs": 100, "pending": 0, "running": 0, "done": 100, "failed": 0}
    page = bench.coordinator.results(name, 0)
    assert sorted(each["path"] for each in page["results"]) == sorted(f"f{number}" for number in range(100))


def test_a_result_that_is_handed_in_twice_counts_once(bench: Bench) -> None:
    name = bench.job(3)
    lease = bench.exchange(name, "a")["leases"][0]
    assert bench.exchange(name, "a", results=[result(lease)], want=False)["committed"] == 1
    again = bench.exchange(name, "a", results=[result(lease)], want=False)
    assert again["committed"] == 0
    assert again["dropped"] == [lease["input"]]
    other = bench.exchange(name, "b", results=[result(lease, "another")], want=False)
    assert other["dropped"] == [lease["input"]]
    assert bench.coordinator.job(name)["counts"]["done"] == 1
    assert bench.coordinator.results(name, 0)["results"][0]["worker"] == "a"


def test_twice_in_one_exchange_counts_once(bench: Bench) -> None:
    name = bench.job(3)
    lease = bench.exchange(name, "a")["leases"][0]
    reply = bench.exchange(name, "a", results=[result(lease), result(lease, "another")], want=False)
    assert reply["committed"] == 1
    assert bench.coordinator.job(name)["counts"]["done"] == 1


def test_the_same_input_is_added_once(bench: Bench) -> None:
    name = bench.job(5)
    reply = bench.add(name, [stated("f1"), stated("f2"), stated("new")])
    assert reply["room"] == MOST_PENDING - 6
    assert bench.coordinator.job(name)["counts"]["inputs"] == 6


def test_a_changed_file_is_another_input(bench: Bench) -> None:
    name = bench.job(2)
    bench.add(name, [{**stated("f1"), "digest": "0" * 64}])
    assert bench.coordinator.job(name)["counts"]["inputs"] == 3


def test_it_goes_on_where_it_was_killed(bench: Bench) -> None:
    name = bench.job(500)
    bench.work(name, "a", 100)
    held = bench.exchange(name, "b")["leases"]
    before = bench.coordinator.job(name)["counts"]["done"]
    bench.end()
    bench.begin()
    reply = bench.exchange(name, "b", results=[result(each) for each in held], held=[])
    assert reply["committed"] == len(held)
    assert before + bench.work(name, "a") + len(held) == 500
    assert bench.coordinator.job(name)["state"] == "done"
    assert len({each["path"] for each in bench.coordinator.results(name, 0)["results"]}) == 500


def test_a_worker_that_holds_inputs_keeps_them_over_a_restart(bench: Bench) -> None:
    name = bench.job(3)
    held = [each["input"] for each in bench.exchange(name, "a")["leases"]]
    bench.end()
    bench.begin()
    bench.exchange(name, "a", held=held, want=False)
    assert held[0] not in [each["input"] for each in bench.exchange(name, "b")["leases"]]


def test_memory_has_a_window_of_the_inputs(bench: Bench) -> None:
    name = bench.coordinator.make({"command": ["true"], "policy": "split"})
    for start in range(0, 12_000, 4000):
        bench.add(name, [stated(f"f{number}") for number in range(start, start + 4000)])
    bench.add(name, [], complete=True)
    job = bench.coordinator._job(name)  # what is in memory is what this is about
    assert len(job.queue.window) <= 5000
    assert job.queue.left == 12_000
    assert bench.work(name, "a") == 12_000


def test_failures_are_reported_and_done_again_alone(bench: Bench) -> None:
    name = bench.job(3)
    lease = bench.exchange(name, "a")["leases"][0]
    failed = {"input": lease["input"], "exit": 3, "error": "no such layer"}
    bench.exchange(name, "a", failures=[failed], want=False)
    assert bench.work(name, "a") == 2
    assert bench.coordinator.job(name)["state"] == "done"
    assert bench.coordinator.failures(name, 0)["failures"][0]["error"] == "no such layer"
    assert bench.coordinator.again(name) == {"again": 1}
    assert bench.work(name, "a") == 1
    assert bench.coordinator.job(name)["counts"] == {
        "inputs": 3, "pending": 0, "running": 0, "done": 3, "failed": 0
    }  # fmt: skip


def test_a_result_after_a_failure_counts(bench: Bench) -> None:
    name = bench.job(3)
    lease = bench.exchange(name, "a")["leases"][0]
    bench.exchange(name, "a", failures=[{"input": lease["input"], "exit": 1, "error": ""}], want=False)
    bench.exchange(name, "b", results=[result(lease)], want=False)
    counts = bench.coordinator.job(name)["counts"]
    assert (counts["done"], counts["failed"], counts["pending"]) == (1, 0, 2)


def test_a_cancelled_job_takes_nothing(bench: Bench) -> None:
    name = bench.job(10)
    leases = bench.exchange(name, "a")["leases"]
    bench.coordinator.cancel(name)
    reply = bench.exchange(name, "a", results=[result(each) for each in leases])
    assert reply["state"] == "cancelled"
    assert reply["leases"] == []
    assert reply["dropped"] == [each["input"] for each in leases]


def test_inputs_whose_bytes_are_elsewhere_are_wanted_soon(bench: Bench) -> None:
    name = bench.coordinator.make({"command": ["true"], "policy": "split"})
    bench.add(name, [stated(f"f{number}", stored=False) for number in range(10)], complete=True)
    assert bench.exchange(name, "pod", has="stored")["leases"] == []
    wanted = bench.add(name, [])["wanted"]
    assert wanted == ["f0", "f1"]
    bench.add(name, [stated("f0")])
    leases = bench.exchange(name, "pod", has="stored")["leases"]
    assert [(each["path"], each["where"]) for each in leases] == [("f0", f"/jobs/{name}/in/f0")]
    assert bench.exchange(name, "device", has="local")["leases"][0]["path"] == "f2"


def test_a_job_that_follows_waits_for_inputs(bench: Bench) -> None:
    name = bench.coordinator.make({"command": ["true"], "policy": "split", "follow": True})
    assert bench.exchange(name, "a")["state"] == "waiting"
    bench.add(name, [stated("new")])
    assert bench.work(name, "a") == 1
    assert bench.coordinator.job(name)["state"] == "running"
    bench.add(name, [], complete=True)
    assert bench.coordinator.job(name)["state"] == "done"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"worker": "../x"}, "worker"),
        ({"site": "moon"}, "site"),
        ({"has": "nothing"}, "has"),
        ({"held": ["1"]}, "held"),
        ({"wait": -1}, "wait"),
        ({"results": [{"input": 1}]}, "digest"),
        ({"results": [{"input": 1, "digest": "0" * 64, "size": 1, "inline": "QQ=="}]}, "digest"),
        ({"results": 3}, "results"),
        ({"slots": True}, "slots"),
    ],
    ids=str,
)
def test_an_exchange_that_is_wrong_is_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(RefusedError, match=word):
        parse_exchange({"worker": "a", **change})


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/"])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(RefusedError):
        parse_inputs({"inputs": [{"path": path, "digest": "0" * 64, "size": 1}]})


@pytest.mark.parametrize(
    "spec",
    [{}, {"command": []}, {"command": [1]}, {"command": ["a"], "kind": "x"}, {"command": ["a"], "on": []}],
)
def test_a_spec_that_is_wrong_is_refused(spec: dict[str, object]) -> None:
    with pytest.raises(RefusedError):
        parse_spec(spec)


def test_a_job_ends_later_where_its_end_could_not_be_written(bench: Bench) -> None:
    name = bench.job(1)
    lease = bench.exchange(name, "a")["leases"][0]
    set_state = bench.coordinator.database.set_state

    def full(*_: object, **__: object) -> None:
        raise RefusedError(507, "full")

    bench.coordinator.database.set_state = full  # type: ignore[method-assign]  # the disk of this test alone
    with pytest.raises(RefusedError):
        bench.exchange(name, "a", results=[result(lease)])
    bench.coordinator.database.set_state = set_state  # type: ignore[method-assign]  # as above
    assert bench.exchange(name, "a", results=[result(lease)])["state"] == "done"
    assert bench.coordinator.job(name)["counts"]["done"] == 1


def test_no_more_is_wanted_than_the_link_brings(bench: Bench) -> None:
    name = bench.coordinator.make({"command": ["true"], "policy": "split"})
    bench.add(name, [stated(f"f{number}", stored=False) for number in range(2000)], complete=True)
    bench.exchange(name, "pod", has="stored")
    wanted = bench.add(name, [])["wanted"]
    for _ in range(20):
        bench.now += 0.5  # the link brings two inputs a second, the pod does a hundred
        wanted = bench.add(name, [stated(wanted[0])])["wanted"]
        leases = bench.exchange(name, "pod", has="stored")["leases"]
        results = [{**result(each), "interval": 0.01} for each in leases]
        bench.exchange(name, "pod", has="stored", results=results)
    assert 2 <= len(wanted) <= 20


def test_bytes_of_an_input_that_a_slow_device_holds_at_the_end_are_wanted_and_copied(bench: Bench) -> None:
    name = bench.coordinator.make({"command": ["true"], "policy": "split"})
    bench.add(name, [stated("f0", stored=False), stated("f1")], complete=True)
    lease = bench.exchange(name, "cam", site="device", has="local")["leases"][0]
    [other] = bench.exchange(name, "pod", has="stored")["leases"]
    bench.now = 0.1
    bench.exchange(name, "pod", has="stored", results=[result(other)])
    bench.now = 0.9
    bench.exchange(name, "cam", site="device", has="local", held=[lease["input"]], want=False)
    bench.exchange(name, "pod", has="stored")
    assert bench.add(name, [])["wanted"] == ["f0"]
    bench.add(name, [stated("f0")], complete=True)
    [copy] = bench.exchange(name, "pod", has="stored")["leases"]
    assert (copy["path"], copy["copy"], copy["where"]) == ("f0", True, f"/jobs/{name}/in/f0")
    assert bench.exchange(name, "pod", results=[result(copy)])["state"] == "done"
