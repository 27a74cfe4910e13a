"""What counts as worse, and what the page of a run says, as tables."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fairlead.pipelineobjects.update.record import UpdateRecord, read_record
from fairlead.pipelineobjects.update.run_status import RunCounts, read_status
from fairlead.pipelineobjects.update.verdict import RunWindow, find_decline, find_failures, window_between

BEFORE = RunWindow(10.0, taken=250, read=250)
SAME = RunWindow(30.0, taken=750, read=750)
DECLINES: dict[str, tuple[RunWindow, RunWindow, str]] = {
    "the same": (BEFORE, SAME, ""),
    "80 %": (BEFORE, replace(SAME, taken=600), ""),
    "79 %, by few frames": (BEFORE, replace(SAME, taken=595), ""),
    "less": (BEFORE, replace(SAME, taken=594), "19.8 frames/s after the update, 25.0 before"),
    "one frame a second, by chance": (RunWindow(10.0, 10, 10), RunWindow(30.0, 20, 30), ""),
    "one frame a second, none": (
        RunWindow(10.0, 10, 10),
        RunWindow(30.0, 0, 30),
        "0.0 frames/s after the update, 1.0 before",
    ),
    "no frames before": (RunWindow(10.0), SAME, ""),
    "a slower source": (BEFORE, replace(SAME, taken=300, read=300), ""),
    "a source that is blocked": (
        BEFORE,
        replace(SAME, taken=300, read=300, blocked=0.5),
        "10.0 frames/s after the update, 25.0 before",
    ),
    "drops as before": (replace(BEFORE, dropped=100), replace(SAME, dropped=300), ""),
    "a fifth more drops": (BEFORE, replace(SAME, dropped=150), ""),
    "more drops": (
        BEFORE,
        replace(SAME, dropped=151),
        "151 frames dropped in 30s after the update, 0 in 10s before",
    ),
}


@pytest.mark.parametrize("case", DECLINES)
def test_a_run_is_worse_by_its_rate_or_its_drops(case: str) -> None:
    before, after, worse = DECLINES[case]
    assert find_decline(before, after) == worse


FAILURES: dict[str, tuple[RunWindow, RunWindow, str]] = {
    "none": (BEFORE, SAME, ""),
    "one crash, by chance": (BEFORE, replace(SAME, restarts=1), ""),
    "two crashes": (BEFORE, replace(SAME, restarts=2), "2 crashes of its stages since the update"),
    "as many as before": (replace(BEFORE, restarts=1), replace(SAME, restarts=4), ""),
    "more than before": (
        replace(BEFORE, restarts=1),
        replace(SAME, restarts=5),
        "5 crashes of its stages since the update",
    ),
    "five frames": (BEFORE, replace(SAME, failed=5), ""),
    "six frames": (BEFORE, replace(SAME, failed=6), "6 frames failed since the update"),
    "twice as many": (replace(BEFORE, failed=10), replace(SAME, failed=65), ""),
    "more": (replace(BEFORE, failed=10), replace(SAME, failed=66), "66 frames failed since the update"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_run_is_worse_by_its_failures_before_its_time_is_over(case: str) -> None:
    before, after, worse = FAILURES[case]
    assert find_failures(before, after) == worse


def test_a_window_is_the_difference_and_none_where_the_run_began_again() -> None:
    begin = RunCounts(100.0, taken=10, read=20, failed=1, restarts=3, dropped=4)
    end = RunCounts(110.0, taken=30, read=45, failed=2, restarts=0, dropped=9, blocked=0.5)
    assert window_between(begin, end) == RunWindow(10.0, 20, 25, 1, 0, 5, 0.5), "new processes count from 0"
    assert window_between(end, begin) is None


def page(**changes: Any) -> bytes:
    """Return a page as a run answers it."""
    follow = {"digest": "d", "seen": "s", "pending": "", "failed": "", "moving": False}
    stages = [
        {"name": "camera", "role": "source", "out": 9, "dropped": {"overrun": 2}, "blocked": 0.25},
        {"name": "net", "role": "run", "in": 9, "out": 8, "failed": 1, "restarts": 2, "dropped": {}},
        {"name": "other", "role": "run", "failed": 7, "restarts": 7},
        {"name": "log", "role": "sink", "in": 8},
    ]
    body = {"pipeline": "count", "seconds": 2.5, "stages": stages, "edges": [{"dropped": {"age": 3}}]}
    return json.dumps({**body, "follow": follow, **changes}).encode()


def test_the_counts_are_those_of_ends_and_of_stages_that_moved() -> None:
    status = read_status(page(), "count")
    assert status is not None
    assert (status.digest, status.seen) == ("d", "s")
    assert status.counts(["net"]) == RunCounts(2.5, 8, 9, 1, 2, 5, 0.25)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no status yet",
        b"[]",
        b"{}",
        page(pipeline="other"),
        page(follow=None),
        page(follow={}),
        page(stages=3),
    ],
)
def test_a_page_of_something_else_is_no_status(body: bytes) -> None:
    assert read_status(body, "count") is None


@pytest.mark.parametrize("text", ["", "{}", '{"version":99}', '{"version":1,"phase":"dancing"}', "[1]"])
def test_a_record_that_cannot_be_read_is_no_update(text: str) -> None:
    assert read_record(text) == UpdateRecord()
