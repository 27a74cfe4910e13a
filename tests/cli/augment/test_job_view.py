"""How jobs are shown: progress with both rates and the bound, when a split cannot help, the end."""

from typing import Any

import pytest

from fairlead.cli.augment import job_view


def job(device: float = 0.0, server: float = 0.0, **more: Any) -> dict[str, Any]:
    """Return a job as a coordinator documents it, with these rates."""
    workers = [
        {
            "name": "camera",
            "site": "device",
            "done": 25,
            "failed": 0,
            "seconds": 100.0,
            "rate": device or None,
        },
        {"name": "pod", "site": "pod", "done": 75, "failed": 1, "seconds": 60.0, "rate": server or None},
    ]
    gain = device / server if server else None
    fixed = {
        "job": "ab12",
        "name": "words",
        "spec": {"policy": "auto"},
        "state": "running",
        "complete": True,
        "created": 0.0,
        "started": 100.0,
        "last_result": 150.0,
        "counts": {"inputs": 200, "pending": 90, "running": 9, "done": 100, "failed": 1},
        "workers": workers,
        "seconds_left": 62.0,
        "bound": {"device": device, "server": server, "gain": gain},
        "helps": None if gain is None else gain >= 0.01,
        "server_seconds_saved": 20.0,
    }
    return {**fixed, **more}


@pytest.mark.parametrize(
    ("rate", "text"), [(0.0, "-"), (0.25, "1 in 4s"), (1.0, "1.0/s"), (37.04, "37.0/s"), (2000.0, "2,000/s")]
)
def test_rates_are_read_at_a_glance(rate: float, text: str) -> None:
    assert job_view.rate_text(rate) == text


def test_progress_has_both_rates_the_time_left_and_the_bound() -> None:
    assert job_view.progress_text(job(1.0, 4.0)) == (
        "1 failed, device 1.0/s, server 4.0/s, 62s left, a split gains at most 25 %"
    )
    assert job_view.progress_text(job(seconds_left=None)) == "1 failed"
    assert "left" not in job_view.progress_text(job(1.0, 4.0, complete=False))


@pytest.mark.parametrize(
    ("device", "server", "policy", "text"),
    [
        (1.0, 306.0, "auto", "splitting cannot help: the device adds 0.33 %; the server works alone"),
        (306.0, 1.0, "auto", "splitting cannot help: the server adds 0.33 %; the device works alone"),
        (1.0, 306.0, "split", "splitting cannot help: the device adds 0.33 %"),
        (1.0, 37.0, "auto", ""),
        (1.0, 0.0, "auto", ""),
    ],
)
def test_it_is_said_when_splitting_cannot_help(device: float, server: float, policy: str, text: str) -> None:
    found = job(device, server, spec={"policy": policy})
    if device > server > 0:
        found["helps"] = False
    assert job_view.helps_text(found) == text


def test_the_end_says_what_the_device_saved() -> None:
    counts = {"inputs": 101, "pending": 0, "running": 0, "done": 100, "failed": 1}
    ended = job(state="done", counts=counts, bound={"device": 0.0, "server": 0.0, "gain": None})
    for each in ended["workers"]:
        del each["rate"]
    assert job_view.summary_lines(job_view.with_rates(ended, job(1.0, 4.0))) == [
        "job ab12 failed: 101 inputs, 100 results, 1 failed in 50s",
        "device: 25 results (25 %), 1.0/s",
        "server: 75 results (75 %), 4.0/s",
        "the device saved 20s of the server's time: it could serve 0.33 more such devices in it",
        "a split gains at most 25 %",
    ]


def test_a_job_is_a_row_of_the_list() -> None:
    cells = [str(each) for each in job_view.row(job(1.0, 4.0))]
    assert cells[:9] == ["ab12", "words", "running", "200", "100", "1", "1.0/s", "4.0/s", "62s"]
    assert str(job_view.row(job(complete=False))[8]) == "follows"


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        ({"path": "a.jpg", "exit": 3, "error": "no picture"}, "a.jpg: no picture (exit 3)"),
        ({"path": "a.jpg", "exit": None, "error": ""}, "a.jpg: no reason is given"),
    ],
    ids=["exit", "nothing"],
)
def test_a_failed_input_is_named_with_its_error(failure: dict[str, Any], line: str) -> None:
    assert job_view.failure_line(failure) == line
