"""Reasons why pods wait are reported once, when they change, at a bounded rate."""

from fairlead.serve.scheduler.report import conditions
from fairlead.serve.scheduler.report.conditions import EVERY, StatusReporter
from tests.serve.scheduler.objects import pod


def test_a_reason_is_reported_once_and_a_new_one_after_a_while() -> None:
    reporter = StatusReporter()
    reporter.add("a", "no room")
    assert reporter.take(0.0, 9) == {"a": "no room"}
    reporter.add("a", "no room")
    assert reporter.take(EVERY, 9) == {}
    reporter.add("a", "less room")
    assert reporter.take(EVERY - 1, 9) == {}
    assert reporter.take(EVERY, 9) == {"a": "less room"}


def test_a_reason_that_changed_back_is_not_reported() -> None:
    reporter = StatusReporter()
    reporter.add("a", "no room")
    reporter.take(0.0, 9)
    reporter.add("a", "less room")
    reporter.add("a", "no room")
    assert reporter.take(EVERY, 9) == {}


def test_nothing_is_reported_of_a_pod_that_is_being_bound() -> None:
    reporter = StatusReporter()
    reporter.add("a", "no room")
    reporter.drop("a")
    assert reporter.take(0.0, 9) == {}


def test_no_more_reasons_are_reported_at_once_than_asked_for() -> None:
    reporter = StatusReporter()
    for number in range(5):
        reporter.add(str(number), "no room")
    assert [len(reporter.take(0.0, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_the_condition_carries_the_sentence_and_the_pods_uid() -> None:
    body = conditions.condition(pod("a"), "0 of 3 nodes", "2026-11-16T00:00:00Z").body
    assert body["metadata"] == {"uid": "uid-a"}
    assert body["status"]["conditions"][0] == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0 of 3 nodes",
        "lastTransitionTime": "2026-11-16T00:00:00Z",
    }
