"""What is said of pods that wait: once, when it changes, and not too often."""

from fairlead.serve.scheduler.tell import EVERY, Sayings

from fairlead.serve.scheduler import tell
from tests.serve.scheduler.objects import pod


def test_the_same_words_are_said_once_and_others_after_a_while() -> None:
    sayings = Sayings()
    sayings.say("a", "no room")
    assert sayings.take(0.0, 9) == {"a": "no room"}
    sayings.say("a", "no room")
    assert sayings.take(EVERY, 9) == {}
    sayings.say("a", "less room")
    assert sayings.take(EVERY - 1, 9) == {}
    assert sayings.take(EVERY, 9) == {"a": "less room"}


def test_a_reason_that_came_and_went_is_not_said() -> None:
    sayings = Sayings()
    sayings.say("a", "no room")
    sayings.take(0.0, 9)
    sayings.say("a", "less room")
    sayings.say("a", "no room")
    assert sayings.take(EVERY, 9) == {}


def test_who_is_being_placed_is_not_spoken_of() -> None:
    sayings = Sayings()
    sayings.say("a", "no room")
    sayings.drop("a")
    assert sayings.take(0.0, 9) == {}


def test_no_more_is_said_at_once_than_may_be() -> None:
    sayings = Sayings()
    for number in range(5):
        sayings.say(str(number), "no room")
    assert [len(sayings.take(0.0, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_the_condition_carries_the_sentence_and_only_to_the_pod_we_mean() -> None:
    body = tell.condition(pod("a"), "0 of 3 nodes", "2026-11-16T00:00:00Z").body
    assert body["metadata"] == {"uid": "uid-a"}
    assert body["status"]["conditions"][0] == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0 of 3 nodes",
        "lastTransitionTime": "2026-11-16T00:00:00Z",
    }
