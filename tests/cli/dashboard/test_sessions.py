"""Sessions of this machine as rows of the dashboard, with the job that both sides work on."""

from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.dashboard.sessions import SessionRows, running_job, session_row
from fairlead.cli.main import main

SESSION: dict[str, Any] = {
    "augmentation": "garden",
    "device": "camera-7",
    "size_bytes": 10 << 30,
    "used_bytes": 3 << 30,
    "accelerator_memory_bytes": 512 << 20,
    "ready": True,
    "conditions": [{"type": "StoreReady", "status": True, "message": "the store answers"}],
}


def job(state: str, **more: Any) -> dict[str, Any]:
    """Return a job of which a quarter is done."""
    workers = [
        {"name": "camera-7", "site": "device", "done": 5, "rate": 2.0},
        {"name": "a", "site": "pod", "done": 10, "rate": 6.0},
        {"name": "b", "site": "pod", "done": 10, "rate": None},
    ]
    counts = {"inputs": 100, "done": 24, "failed": 1}
    bound = {"device": 2.0, "server": 6.0, "gain": 1 / 3}
    shown = {"job": "1f", "name": "birds", "state": state, "complete": True, "counts": counts}
    return {**shown, "workers": workers, "bound": bound, **more}


def test_a_session_shows_both_rates_and_how_far_its_job_is() -> None:
    row = session_row(SESSION, job("running"), "ann")
    assert (row.key, row.state, row.reason) == ("ann/garden", "ready", "")
    assert (row.storage_bytes, row.used_bytes, row.unit) == (10 << 30, 3 << 30, "512 MiB of an accelerator")
    assert (row.device_rate, row.server_rate, row.progress, row.job) == (2.0, 6.0, 0.25, "birds")
    assert row.bound == "a split gains at most 33 %"
    assert row.command == "fairlead augment show garden --local"


def test_a_job_that_still_gets_inputs_has_no_progress() -> None:
    row = session_row(SESSION, job("running", complete=False, name=""), "ann")
    assert (row.progress, row.job) == (None, "1f")


def test_a_session_that_is_not_ready_says_what_is_missing() -> None:
    conditions = [
        {"type": "StoreReady", "status": True, "message": "the store answers"},
        {"type": "DeviceJoined", "status": False, "message": "the device has not joined"},
    ]
    row = session_row({**SESSION, "ready": False, "conditions": conditions, "used_bytes": None}, None, "ann")
    assert (row.state, row.reason) == ("waiting", "the device has not joined")
    assert (row.device_rate, row.job, row.used_bytes) == (None, None, None)


def test_the_newest_running_job_is_shown() -> None:
    jobs = [job("done", job="c"), job("running", job="b"), job("running", job="a")]
    assert (running_job(jobs) or {})["job"] == "b"
    assert running_job(jobs[:1]) is None


def test_sessions_of_this_machine_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert SessionRows(environ, "ann")() == []
    assert main(["augment", "create", "garden", "--local", "--device", "camera-7", "--size", "10Mi"]) == 0
    try:
        (row,) = SessionRows(environ, "ann")()
        assert (row.name, row.device, row.storage_bytes, row.job) == ("garden", "camera-7", 10 << 20, None)
        assert "join" in row.reason
    finally:
        assert main(["augment", "delete", "garden", "--local", "--delete-data"]) == 0
