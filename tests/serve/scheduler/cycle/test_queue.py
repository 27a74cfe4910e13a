"""The queue: higher priority first, then earlier arrival; a refused pod waits for an event of its hints."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fairlead.cache.events import HINTS_BY_REASON, ClusterEvent, queueing_hints
from fairlead.placement import Reason, Rejection
from fairlead.request import Gang, Request
from fairlead.serve.scheduler.cycle.queue import SAFETY_NET, SchedulingQueue

ROOM = frozenset({ClusterEvent.POD_DELETED})


def request(name: str, priority: int = 0, gang: Gang | None = None) -> Request:
    return Request(name, uid=name, priority=priority, gang=gang)


def drained(queue: SchedulingQueue) -> list[list[str]]:
    groups = []
    while group := queue.pop():
        groups.append([each.name for each in group])
    return groups


def filled(*requests: Request) -> SchedulingQueue:
    queue = SchedulingQueue()
    for each in requests:
        queue.add(each, 0.0)
    return queue


def test_higher_priority_comes_first_then_earlier_arrival() -> None:
    assert drained(filled(request("a"), request("b", 5), request("c"), request("d", 5))) == [
        ["b"],
        ["d"],
        ["a"],
        ["c"],
    ]


def test_a_gang_is_popped_together_at_its_highest_priority() -> None:
    gang = Gang("ring", 2)
    queue = filled(request("a", 1), request("g1", 0, gang), request("g2", 3, gang))
    assert drained(queue) == [["g1", "g2"], ["a"]]


def test_an_unschedulable_pod_becomes_active_at_an_event_of_its_hints_and_keeps_its_place() -> None:
    queue = filled(request("old"))
    queue.add_unschedulable(queue.pop(), ROOM, 0.0)
    queue.add(request("new"), 1.0)
    assert queue.move_to_active(frozenset({ClusterEvent.POD_BOUND})) == 0
    assert queue.pods_by_queue()["unschedulable"] == 1
    assert queue.move_to_active(ROOM) == 1
    assert drained(queue) == [["old"], ["new"]]


def test_a_changed_request_becomes_active_and_an_unchanged_one_does_not() -> None:
    queue = filled(request("a"))
    queue.add_unschedulable(queue.pop(), ROOM, 0.0)
    queue.add(request("a"), 1.0)
    assert queue.pop() == []
    queue.add(request("a", priority=7), 1.0)
    assert drained(queue) == [["a"]]


def test_a_new_member_activates_its_gang() -> None:
    gang = Gang("ring", 2)
    queue = filled(request("a", gang=gang))
    queue.add_unschedulable(queue.pop(), frozenset({ClusterEvent.NODE_CHANGED}), 0.0)
    queue.add(request("b", gang=gang), 1.0)
    assert drained(queue) == [["a", "b"]]


def test_a_failed_binding_backs_off_for_longer_each_time() -> None:
    queue = filled(request("a"))
    pauses = []
    now = 0.0
    for _ in range(9):
        queue.pop()
        queue.record_failure("a", now)
        queue.add(request("a"), now)
        until = queue.flush_expired(now)
        assert until is not None
        pauses.append(until - now)
        now = until
        queue.flush_expired(now)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_the_backoff_of_a_queue_can_be_set() -> None:
    queue, untils = SchedulingQueue(initial_backoff=2.0, max_backoff=3.0), []
    for _ in range(3):
        queue.record_failure("a", 0.0)
        queue.add(request("a"), 0.0)
        untils.append(queue.flush_expired(0.0))
        queue.flush_expired(9.0)
        assert drained(queue) == [["a"]]
    assert untils == [2.0, 3.0, 3.0]


def test_an_unschedulable_pod_becomes_active_after_the_safety_net() -> None:
    queue = filled(request("a"))
    queue.add_unschedulable(queue.pop(), frozenset(), 10.0)
    assert queue.flush_expired(10.0) == 10.0 + SAFETY_NET
    assert queue.flush_expired(10.0 + SAFETY_NET) is None
    assert drained(queue) == [["a"]]


def test_where_something_became_free_only_pods_that_may_fit_become_active() -> None:
    queue = SchedulingQueue()
    asked = [replace(request(str(cpu)), cpu=cpu) for cpu in (100, 200, 200, 4000)]
    for number, each in enumerate(asked):
        queue.add(replace(each, uid=str(number), name=str(number)), 0.0)
    while group := queue.pop():
        queue.add_unschedulable(group, ROOM, 0.0)
    judged: list[int] = []

    def could(wanted: Request) -> bool:
        judged.append(wanted.cpu)
        return wanted.cpu <= 200

    assert queue.move_to_active(ROOM, could) == 3
    assert sorted(judged) == [100, 200, 4000], "one pod of each shape is checked"
    assert drained(queue) == [["0"], ["1"], ["2"]]


def test_the_next_pods_are_listed_without_being_popped() -> None:
    queue = filled(request("a"), request("b", 5), request("c"))
    assert queue.next_active(2) == ["b", "a"]
    assert drained(queue) == [["b"], ["a"], ["c"]]


def test_every_reason_has_queueing_hints() -> None:
    assert set(HINTS_BY_REASON) == set(Reason)
    assert queueing_hints([Rejection(Reason.POD_AFFINITY, "")]) == {
        ClusterEvent.NODE_CHANGED,
        ClusterEvent.POD_BOUND,
    }


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["add", "pop", "park", "remove", "wake"])))
)
def test_no_pod_is_lost_or_queued_twice(script: list[tuple[str, str]]) -> None:
    queue, there, out = SchedulingQueue(), set[str](), dict[str, Request]()
    for name, what in script:
        if what == "add" and name not in out:
            queue.add(request(name), 0.0)
            there.add(name)
        elif what == "pop":
            out |= {each.id: each for each in queue.pop()}
        elif what == "park":
            queue.add_unschedulable(out.values(), ROOM, 0.0)
            out = {}
        elif what == "remove":
            queue.remove(name)
            there.discard(name)
            out.pop(name, None)
        elif what == "wake":
            queue.move_to_active(ROOM)
        assert len(queue) + len(out) == len(there)
    queue.move_to_active(ROOM)
    assert sorted(each for group in drained(queue) for each in group) == sorted(there - out.keys())
