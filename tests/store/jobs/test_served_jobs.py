"""Jobs of a store that is served: credentials, files of results, uploads, a freeze, a restart."""

import hashlib
import json
import threading
import time
from pathlib import Path
from typing import Any

from fairlead.store.settings import StoreFiles
from tests.store.jobs.crew import result, stated
from tests.store.stores import Store, store

JOBS = "/.fairlead/jobs"


def post(where: Store, path: str, document: Any) -> dict[str, Any]:
    """Send a request, and return the document of its answer."""
    answer = where.ask("POST", f"{JOBS}{path}", json.dumps(document))
    assert answer.status in (200, 201), answer.body
    return dict(json.loads(answer.body))


def made(where: Store, count: int) -> str:
    """Make a job with so many inputs."""
    name = str(post(where, "", {"command": ["true"], "policy": "split"})["job"])
    post(
        where,
        f"/{name}/inputs",
        {"inputs": [stated(f"d/f{each}") for each in range(count)], "complete": True},
    )
    return name


def exchange(where: Store, name: str, **said: Any) -> dict[str, Any]:
    """Exchange."""
    return post(
        where, f"/{name}/exchange", {"worker": "w", "site": "pod", "has": "all", "want": True, **said}
    )


def work(where: Store, name: str) -> None:
    """Do all inputs of a job."""
    reply = exchange(where, name)
    while reply["leases"]:
        reply = exchange(where, name, results=[result(each) for each in reply["leases"]])


def placed(where: Store, name: str, count: int) -> dict[str, bytes]:
    """Return the files of results, once there are so many."""
    end, folder = time.monotonic() + 30, where.root / "jobs" / name / "out"
    while True:
        found = [path for path in folder.rglob("*") if path.is_file()]
        if len(found) >= count or time.monotonic() > end:
            return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_each_result_is_a_file(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        name = made(where, 20)
        work(where, name)
        files = placed(where, name, 20)
        assert files == {f"d/f{each}": f"d/f{each}".encode() * 2 for each in range(20)}
        answer = where.ask("GET", f"{JOBS}/{name}")
        assert json.loads(answer.body)["state"] == "done"
        assert [each["job"] for each in json.loads(where.ask("GET", JOBS).body)["jobs"]] == [name]


def test_results_become_files_after_a_restart(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        name = made(where, 5)
        work(where, name)
    for path in where.root.glob(f"jobs/{name}/out/d/*"):
        path.unlink()
    # What was not synced yet is in the database, and is written again; what was is the volume's.
    with store(tmp_path) as where:
        answer = where.ask("GET", f"{JOBS}/{name}/results")
        rows = json.loads(answer.body)["results"]
        unplaced = [each["path"] for each in rows if each["unplaced"]]
        assert len(rows) == 5
        assert set(placed(where, name, len(unplaced))) >= set(unplaced)


def test_a_large_result_is_uploaded_and_then_named(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        name = made(where, 1)
        lease = exchange(where, name)["leases"][0]
        data = b"x" * 200_000
        staged = f"/jobs/{name}/staged/w-1"
        assert where.ask("PUT", staged, data).status == 201
        large = {
            "input": lease["input"],
            "digest": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "seconds": 1,
            "staged": staged,
        }
        wrong = where.ask(
            "POST", f"{JOBS}/{name}/exchange", json.dumps({"worker": "w", "results": [{**large, "size": 3}]})
        )
        assert wrong.status == 409
        assert exchange(where, name, results=[large])["committed"] == 1
        assert placed(where, name, 1) == {"d/f0": data}
        assert not (where.root / "jobs" / name / "staged" / "w-1").exists()


def test_a_credential_is_needed(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        for method, path in (
            ("GET", ""),
            ("POST", ""),
            ("GET", "/0123456789"),
            ("POST", "/0123456789/exchange"),
        ):
            assert where.ask(method, f"{JOBS}{path}", token="").status == 401
            assert where.ask(method, f"{JOBS}{path}", token="wrong").status == 401
        assert where.ask("GET", f"{JOBS}/0123456789").status == 404
        assert where.ask("POST", JOBS, "[").status == 400
        assert where.ask("DELETE", JOBS).status == 405


def test_an_idle_worker_waits_for_inputs(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        name = str(post(where, "", {"command": ["true"], "policy": "split", "follow": True})["job"])
        replies: list[dict[str, Any]] = []
        waiting = threading.Thread(target=lambda: replies.append(exchange(where, name, wait=20)))
        waiting.start()
        post(where, f"/{name}/inputs", {"inputs": [stated("f")]})
        waiting.join()
        assert [each["path"] for each in replies[0]["leases"]] == ["f"]


def test_nothing_is_written_in_a_freeze(tmp_path: Path) -> None:
    freeze = tmp_path / "freeze"
    with store(tmp_path, files=StoreFiles(freeze=str(freeze))) as where:
        name = made(where, 2)
        lease = exchange(where, name)["leases"][0]
        freeze.write_text("it is moved")
        refused = where.ask(
            "POST", f"{JOBS}/{name}/exchange", json.dumps({"worker": "w", "results": [result(lease)]})
        )
        assert refused.status == 503
        assert where.ask("GET", f"{JOBS}/{name}").status == 200
        freeze.unlink()
        assert exchange(where, name, results=[result(lease)])["committed"] == 1


def test_a_full_quota_delays_files_and_loses_nothing(tmp_path: Path) -> None:
    quota = tmp_path / "quota"
    quota.write_text("20")
    with store(tmp_path, files=StoreFiles(quota=str(quota))) as where:
        name = made(where, 10)
        work(where, name)
        assert json.loads(where.ask("GET", f"{JOBS}/{name}").body)["counts"]["done"] == 10
        quota.write_text("1Mi")
        assert len(placed(where, name, 10)) == 10


def test_an_upload_that_lost_is_removed_and_one_that_won_is_not(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        name = made(where, 2)
        lease = exchange(where, name)["leases"][0]
        offers = []
        for number in range(2):
            data = bytes([number]) * 100_000
            path = f"/jobs/{name}/staged/{number}"
            assert where.ask("PUT", path, data).status == 201
            digest = hashlib.sha256(data).hexdigest()
            offers.append({"input": lease["input"], "digest": digest, "size": len(data), "staged": path})
        for offer in (*offers, offers[0]):
            exchange(where, name, results=[{**offer, "seconds": 1}], want=False)
        assert placed(where, name, 1) == {"d/f0": b"\0" * 100_000}
        assert not any("/staged/" in path for path in where.files())


def test_a_result_that_cannot_have_its_name_is_kept_aside(tmp_path: Path) -> None:
    with store(tmp_path) as where:
        name = str(post(where, "", {"command": ["true"], "policy": "split"})["job"])
        post(where, f"/{name}/inputs", {"inputs": [stated("a"), stated("a/b")], "complete": True})
        work(where, name)
        while len(where.files()) < 2:
            time.sleep(0.01)
        assert sorted(where.files().values()) == [b"a/ba/b", b"aa"]
        assert "cannot have its name" in where.said[0]
