"""How jobs are shown: progress with both rates and the bound, when a split cannot help, the end."""

from typing import Any

import pytest

from fairlead.cli.augment import job_view
from fairlead.cli.augment.decision_view import Explanation, decision_lines


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


ALONE = {
    "chosen": {"compute": "server", "storage": "device"},
    "reason": "splitting cannot help: it would gain 0.27 %",
}
BOTH = {"chosen": {"compute": "split", "storage": "device"}, "reason": "20.0 % sooner than the next"}


@pytest.mark.parametrize(
    ("rates", "decision", "text"),
    [
        ((1.0, 37.0), ALONE, "splitting cannot help: it would gain 0.27 %; the server works alone"),
        ((1.0, 306.0), BOTH, ""),
        ((1.0, 306.0), None, "splitting cannot help: the device adds 0.33 %"),
        ((306.0, 1.0), None, "splitting cannot help: the server adds 0.33 %"),
        ((1.0, 37.0), None, ""),
        ((1.0, 0.0), None, ""),
    ],
    ids=["alone", "both", "device", "server", "helps", "unknown"],
)
def test_it_is_said_when_splitting_cannot_help(rates: tuple[float, float], decision: Any, text: str) -> None:
    found = job(*rates, decision=decision)
    if rates[0] > rates[1] > 0:
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


def alternative(compute: str, seconds: float | None, storage: str = "device") -> dict[str, Any]:
    """Return an alternative as a coordinator documents it."""
    return {
        "compute": compute,
        "storage": storage,
        "offloads": "compute",
        "seconds": seconds,
        "limit": "link up",
        "server_share": 0.83,
        "up_bytes": 2048,
        "down_bytes": 0,
    }


def test_alternatives_are_explained_once_and_when_the_choice_changes() -> None:
    split, device = alternative("split", 166.71), alternative("device", 1000.0)
    refused = {"compute": "server", "storage": "server", "reason": "results belong to the device"}
    decision = {
        "chosen": split,
        "reason": "20 % sooner",
        "alternatives": [split, device],
        "impossible": [refused],
    }
    explanation = Explanation()
    assert explanation.news(job()) is None
    assert explanation.news(job(decision={**decision, "chosen": {**split, "seconds": None}})) is None
    lines = str(explanation.news(job(decision=decision))).splitlines()
    assert lines[0] == "compute: split, results: device (20 % sooner)"
    assert lines[2].split() == [
        *("*", "split", "device", "compute", "2m47s", "link", "up"),
        *("83", "%", "2.0", "KiB", "-"),
    ]
    assert lines[3].split()[:4] == ["device", "device", "compute", "16m40s"]
    assert lines[4].endswith("results belong to the device")
    assert explanation.news(job(decision=decision)) is None
    assert explanation.news(job(decision={**decision, "chosen": device})) is not None


def test_a_job_without_a_decision_has_no_alternatives() -> None:
    assert decision_lines(job()) == ["no alternatives: the job has ended, or has another policy than auto"]
