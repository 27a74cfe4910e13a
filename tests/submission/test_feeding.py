"""Inputs are named, wanted ones are uploaded, results are fetched: with a real store and its coordinator."""

from pathlib import Path

import pytest

from fairlead.errors import JobError
from fairlead.submission.collecting import ResultCollector, result_file
from fairlead.submission.feeder import Feeder
from fairlead.submission.sources import below_folder, from_lines
from tests.submission.worlds import PAUSE, HandWorker, session, until


def wait_until_complete(feeder: Feeder) -> None:
    until(lambda: feeder.progress.is_complete)


def test_inputs_go_to_a_worker_elsewhere_and_their_results_come_back(tmp_path: Path) -> None:
    inputs, out = tmp_path / "in", tmp_path / "out"
    for number in range(40):
        path = inputs / f"{number % 3}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"input {number}")
    with session(tmp_path / "store") as shop:
        job = shop.submit()
        feeder = Feeder(shop.door, job, str(inputs), below_folder(str(inputs)), PAUSE)
        collector = ResultCollector(shop.door, job, str(out), PAUSE)
        feeder.start()
        collector.start()
        HandWorker(shop, job).run()
        feeder.stop()
        collector.finish()
        assert feeder.error is None
        assert collector.error is None
        counts = shop.job(job)["counts"]
    assert (counts["inputs"], counts["done"], counts["failed"]) == (40, 40, 0)
    assert feeder.progress.named == 40
    assert feeder.progress.uploaded == 40
    for number in range(40):
        assert (out / f"{number % 3}" / f"{number}.txt").read_text() == f"INPUT {number}"
    assert len([path for path in out.rglob("*") if path.is_file()]) == 40


def test_unusable_inputs_are_counted_and_the_others_done(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    with session(tmp_path / "store") as shop:
        job = shop.submit()
        feeder = Feeder(
            shop.door, job, str(tmp_path), from_lines(["a", "gone", "../b"], str(tmp_path)), PAUSE
        )
        feeder.start()
        HandWorker(shop, job).run()
        feeder.stop()
    assert feeder.error is None
    assert feeder.progress.unusable == 2
    assert [each.path for each in feeder.faults] == ["gone", "../b"]


def test_a_feeder_that_begins_again_names_the_same_inputs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in "abc":
        (tmp_path / "in" / name).write_text(name)
    with session(tmp_path / "store") as shop:
        job = shop.submit()
        for _ in range(2):
            feeder = Feeder(shop.door, job, str(tmp_path / "in"), below_folder(str(tmp_path / "in")), PAUSE)
            feeder.start()
            wait_until_complete(feeder)
            feeder.stop()
        feeder = Feeder(shop.door, job, str(tmp_path / "in"), (), PAUSE)
        feeder.start()
        worker = HandWorker(shop, job)
        worker.run()
        feeder.stop()
        assert shop.job(job)["counts"]["inputs"] == 3
    assert sorted(worker.done) == ["a", "b", "c"]


def test_a_cancelled_job_ends_its_feeder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    with session(tmp_path / "store") as shop, shop.door.client() as client:
        job = shop.submit()
        client.cancel(job)
        feeder = Feeder(shop.door, job, str(tmp_path), from_lines(["a"], str(tmp_path)), PAUSE)
        feeder.start()
        until(feeder._ended.is_set)
        feeder.stop()
    assert feeder.error is None


def test_results_that_are_here_already_are_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    out = tmp_path / "out"
    with session(tmp_path / "store") as shop:
        job = shop.submit()
        feeder = Feeder(shop.door, job, str(tmp_path), from_lines(["a"], str(tmp_path)), PAUSE)
        feeder.start()
        HandWorker(shop, job).run()
        feeder.stop()
        times = []
        for _ in range(2):
            collector = ResultCollector(shop.door, job, str(out), PAUSE)
            collector.start()
            collector.finish()
            assert collector.error is None
            times.append((out / "a").stat().st_ino)
        assert times[0] == times[1]


def test_failed_inputs_run_again_alone(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    with session(tmp_path / "store") as shop, shop.door.client() as client:
        job = shop.submit()
        feeder = Feeder(shop.door, job, str(tmp_path), from_lines("abc", str(tmp_path)), PAUSE)
        feeder.start()
        HandWorker(shop, job, frozenset("b")).run()
        feeder.stop()
        (failure,) = client.failures(job).items
        assert (failure["path"], failure["exit"], failure["error"]) == ("b", 3, "no good")
        assert client.again(job)["again"] == 1
        feeder = Feeder(shop.door, job, str(tmp_path), (), PAUSE)
        feeder.start()
        again = HandWorker(shop, job)
        again.run()
        feeder.stop()
        assert again.done == ["b"]
        assert shop.job(job)["counts"]["done"] == 3


def test_files_that_go_or_change_before_they_are_needed_fail_and_hold_up_nothing(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    with session(tmp_path / "store") as shop, shop.door.client() as client:
        job = shop.submit()
        feeder = Feeder(shop.door, job, str(tmp_path), from_lines("abc", str(tmp_path)), PAUSE)
        feeder.start()
        wait_until_complete(feeder)
        (tmp_path / "b").unlink()
        (tmp_path / "c").write_text("changed")
        worker = HandWorker(shop, job)
        worker.run()
        feeder.stop()
        assert feeder.error is None
        errors = {each["path"]: each["error"] for each in client.failures(job).items}
        results = {each["path"]: each["size"] for each in client.results(job).items}
    assert results == {"a": 1, "c": 7}
    assert errors["b"].startswith("the file was removed")
    assert errors["c"].startswith("the file was changed")


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "a/../../b"])
def test_a_result_never_leaves_its_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(JobError, match="is not below"):
        result_file(str(tmp_path), path)
