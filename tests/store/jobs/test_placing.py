"""Results get their files: none is swept away before that, and a store that starts again is soon done."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairlead.store.contents import Contents
from fairlead.store.disk import PosixDisk
from fairlead.store.freeze import WriteFreeze
from fairlead.store.jail import Jail
from fairlead.store.jobs.placing import ResultPlacer, make_folders
from fairlead.store.quota import Account
from fairlead.store.trace import AccessTrace
from fairlead.store.uploads import Staging
from tests.store.jobs.crew import Bench, result


@dataclass
class Placed:
    """A coordinator and a volume; the thread that places results does not run."""

    root: Path
    bench: Bench
    contents: Contents
    placer: ResultPlacer

    def upload(self, job: str, name: str, data: bytes) -> str:
        """Put an upload among those of a job; return its path."""
        path = f"/jobs/{job}/staged/{name}"
        make_folders(self.contents, path)
        (self.root / path[1:]).write_bytes(data)
        return path

    def out(self, job: str) -> list[str]:
        """Return the names of the results that have a file."""
        folder = self.root / "jobs" / job / "out"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def placed(tmp_path: Path) -> Placed:
    root = tmp_path / "root"
    root.mkdir()
    jail = Jail(str(root))
    staging = Staging(f"{jail.own}/staging", PosixDisk(), sync=False)
    account = Account((jail.root,), jail.own, lambda: None)
    contents = Contents(jail, staging, account, WriteFreeze(), AccessTrace())
    contents.prepare()
    bench = Bench(tmp_path / "jobs.sqlite")
    return Placed(root, bench, contents, ResultPlacer(bench.coordinator, contents, lambda line: None))


def as_upload(lease: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the result of a lease as one that was uploaded before."""
    offered = {name: value for name, value in result(lease).items() if name != "inline"}
    return {**offered, "staged": path}


def test_the_last_upload_of_a_job_stays_until_it_has_its_name(placed: Placed) -> None:
    job = placed.bench.job(2)
    leases = placed.bench.exchange(job, "w", slots=2)["leases"]
    leases += placed.bench.exchange(job, "w", results=[result(leases[0])], slots=2)["leases"][:1]
    assert placed.placer.place_some() == 1
    assert placed.placer.place_some() == 0
    # The job ends here, after the thread has found nothing to place.
    path = placed.upload(job, "w-2", leases[1]["path"].encode() * 2)
    assert placed.bench.exchange(job, "w", results=[as_upload(leases[1], path)])["state"] == "done"
    placed.placer.sweep()
    assert placed.placer.place_some() == 1
    assert placed.out(job) == ["f0", "f1"]
    placed.placer.sweep()
    assert not (placed.root / "jobs" / job / "staged").exists()


def test_uploads_of_a_job_that_runs_again_stay(placed: Placed) -> None:
    job = placed.bench.job(1)
    lease = placed.bench.exchange(job, "w")["leases"][0]
    placed.bench.exchange(job, "w", failures=[{"input": lease["input"], "exit": 1, "error": "no"}])
    placed.bench.coordinator.again(job)
    path = placed.upload(job, "w-1", b"kept")
    placed.placer.sweep()
    assert (placed.root / path[1:]).exists()


def test_uploads_of_an_ended_job_are_removed_after_a_restart(placed: Placed) -> None:
    job = placed.bench.job(3)
    placed.bench.work(job, "w")
    placed.upload(job, "late", b"of another worker")
    while placed.placer.place_some():
        pass
    placed.placer.settle()
    placed.bench.end()
    placed.bench.begin()
    again = ResultPlacer(placed.bench.coordinator, placed.contents, lambda line: None)
    assert not again.is_done
    assert again.place_some() == 0
    # Else the thread would look again at once, for ever.
    assert again.is_done
    again.sweep()
    assert not (placed.root / "jobs" / job / "staged").exists()
