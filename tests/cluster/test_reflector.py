"""The reflector: whatever a server sends or omits, the copy and the changes are correct."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import ConfigMap
from fairlead.cluster.watch.changes import ChangeQueue, changes_between
from fairlead.cluster.watch.reflector import Reflector, RequestEnd, WatchTiming
from tests.cluster.models import NAMES, Reader, Server, Wire, item_of, sight, sights

WEIGHTS = {
    "write": 4,
    "deliver": 5,
    "repeat": 2,
    "mark": 2,
    "replace": 1,
    "over": 1,
    "compact": 1,
    "restore": 1,
}
actions = st.sampled_from([name for name, weight in WEIGHTS.items() for _ in range(weight)])
steps = st.lists(st.tuples(actions, st.integers(0, 2**16)), min_size=20, max_size=60)


@settings(max_examples=max(300, settings().max_examples))
@given(steps, st.booleans())
def test_the_copy_converges_whatever_the_server_sends_or_omits(
    script: list[tuple[str, int]], streams: bool
) -> None:
    wire = Wire(streams)
    for name, seed in script:
        getattr(wire, name)(Random(seed))
        wire.check()
    wire.deliver_all()


writes = st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=30)


@given(writes, st.integers(0, 2**32))
def test_a_resumed_watch_reports_every_write_once_and_in_order(
    script: list[tuple[str, bool]], seed: int
) -> None:
    server, reader, random = Server(), Reader(), Random(seed)
    reflector: Reflector[ConfigMap] = Reflector(WatchTiming(), random)
    reflector.next_request()
    reader.take(reflector.on_list([], str(server.version)))
    for name, remove in script:
        server.write(name, remove=remove)
    while int((request := reflector.next_request()).version) < server.version:
        assert request.kind == "watch", "no list is needed if no event was missed"
        for what, item in server.since(int(request.version))[: random.randint(1, 5)]:
            for _ in range(random.choice((1, 1, 2))):
                reader.take(reflector.on_event(what, item))
        reflector.on_request_end(random.choice((RequestEnd.CLOSED, RequestEnd.UNAVAILABLE)), 0.1)
    assert [sight(change.object) for change in reader.changes if change.new] == [
        sight(item) for what, item in server.log if what != "DELETED"
    ]
    assert [change.type.upper() for change in reader.changes] == [what for what, _ in server.log]


@given(writes, st.randoms(use_true_random=False))
def test_a_slow_reader_queues_one_change_per_object_and_ends_in_the_final_state(
    script: list[tuple[str, bool]], random: Random
) -> None:
    server, reader = Server(), Reader()
    queue: ChangeQueue[ConfigMap] = ChangeQueue()
    for name, remove in script:
        old = server.objects.get(name)
        server.write(name, remove=remove)
        for change in changes_between(old, server.objects.get(name)):
            queue.put(change)
        assert len(queue) <= len(NAMES)
        while len(queue) and random.random() < 0.3:
            reader.take(queue.take())
    while len(queue):
        reader.take(queue.take())
    assert sights(reader.known) == server.state()


def following(version: int = 10) -> Reflector[ConfigMap]:
    reflector: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
    reflector.next_request()
    reflector.on_list([], str(version))
    reflector.next_request()
    return reflector


@pytest.mark.parametrize(
    ("end", "received", "kind"),
    [
        (RequestEnd.CLOSED, True, "watch"),
        (RequestEnd.CLOSED, False, "stream"),
        (RequestEnd.UNAVAILABLE, True, "watch"),
        (RequestEnd.UNAVAILABLE, False, "watch"),
        (RequestEnd.TIMED_OUT, True, "stream"),
        (RequestEnd.GONE, True, "stream"),
        (RequestEnd.TOO_NEW, True, "stream"),
        (RequestEnd.REFUSED, True, "stream"),
        (RequestEnd.FAILED, True, "stream"),
    ],
)
def test_the_request_after_a_watch(end: RequestEnd, received: bool, kind: str) -> None:
    reflector = following()
    if received:
        reflector.on_event("ADDED", item_of("a", "u1", 11))
    reflector.on_request_end(end, 0.1)
    request = reflector.next_request()
    assert request.kind == kind
    assert request.version == (("11" if received else "10") if kind == "watch" else "")


def test_an_older_bookmark_leads_to_a_list() -> None:
    reflector = following(20)
    reflector.on_bookmark("15", complete=False)
    assert not reflector.following
    reflector.on_request_end(RequestEnd.CLOSED, 0.1)
    assert reflector.next_request().kind != "watch"


def test_repeated_events_during_a_streamed_list_change_nothing() -> None:
    reflector: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
    reflector.next_request()
    old, new, gone = item_of("a", "u1", 11), item_of("a", "u1", 12), item_of("b", "u2", 13)
    for what, item in (("ADDED", old), ("MODIFIED", new), ("ADDED", old)):
        reflector.on_event(what, item)
    for what, item in (
        ("ADDED", item_of("b", "u2", 10)),
        ("DELETED", gone),
        ("ADDED", item_of("b", "u2", 10)),
    ):
        reflector.on_event(what, item)
    assert not reflector.objects, "the copy stays empty until the list is complete"
    assert not reflector.on_bookmark("13", complete=False)
    changes = reflector.on_bookmark("13", complete=True)
    assert [(change.type, change.new) for change in changes] == [("added", new)]


def test_a_list_is_sent_after_many_failed_watches() -> None:
    reflector = following()
    kinds = []
    for _ in range(12):
        reflector.on_request_end(RequestEnd.UNAVAILABLE, 0.0)
        kinds.append(reflector.next_request().kind)
    assert kinds == ["watch"] * 11 + ["stream"]


def test_delays_grow_up_to_their_maximum() -> None:
    reflector: Reflector[ConfigMap] = Reflector(WatchTiming(initial_backoff=1, max_backoff=8), Random(1))
    delays = []
    for _ in range(40):
        reflector.next_request()
        reflector.on_request_end(RequestEnd.UNAVAILABLE, 0.0)
        delays.append(reflector.next_request().delay)
    assert max(delays[:2]) <= 4
    assert 4 < max(delays) <= 8


def test_an_unavailable_server_costs_no_list() -> None:
    reflector = following()
    for _ in range(5):
        reflector.on_request_end(RequestEnd.UNAVAILABLE, 0.0)
        assert reflector.next_request().kind == "watch"


def test_a_watch_that_ends_at_once_without_an_event_leads_to_a_list() -> None:
    reflector = following()
    reflector.on_request_end(RequestEnd.CLOSED, 0.1)
    assert reflector.next_request().kind == "stream"


def test_a_long_watch_without_an_event_is_resumed() -> None:
    reflector = following()
    reflector.on_request_end(RequestEnd.CLOSED, 60.0)
    assert reflector.next_request().kind == "watch"


def test_disconnects_of_a_watch_with_bookmarks_only_do_not_grow_the_delay() -> None:
    reflector = following()
    for version in range(11, 40):  # some bookmarks, and a disconnect between two of them
        reflector.on_request_end(RequestEnd.UNAVAILABLE, 50.0)
        assert reflector.next_request().delay <= 2 * WatchTiming().initial_backoff
        reflector.on_bookmark(str(version), complete=False)
        reflector.on_request_end(RequestEnd.UNAVAILABLE, 60.0)
        assert reflector.next_request().kind == "watch"


def test_consecutive_watches_without_an_event_time_out_together() -> None:
    reflector = following()
    for _ in range(2):
        reflector.on_request_end(RequestEnd.CLOSED, 40.0)
        assert reflector.next_request().kind == "watch"
    reflector.on_request_end(RequestEnd.CLOSED, 40.0)
    assert reflector.next_request().kind == "stream"


def test_a_server_that_always_answers_gone_gets_growing_delays() -> None:
    reflector = following()
    delays = []
    for _ in range(12):
        reflector.on_request_end(RequestEnd.GONE, 0.0)
        delays.append(reflector.next_request().delay)
        reflector.on_list([], "10")
        assert reflector.next_request().delay == 0, "a watch follows its list at once"
    assert max(delays[6:]) > 5


def test_a_server_that_refused_a_streamed_list_gets_no_further_one() -> None:
    reflector: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
    assert reflector.next_request().kind == "stream"
    reflector.on_request_end(RequestEnd.REFUSED, 0.0)
    for _ in range(3):
        assert reflector.next_request().kind == "list"
        reflector.on_request_end(RequestEnd.UNAVAILABLE, 0.0)


def test_a_plain_list_follows_a_streamed_list_that_never_ends() -> None:
    reflector: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
    reflector.next_request()
    reflector.on_request_end(RequestEnd.TIMED_OUT, 90.0)
    assert reflector.next_request().kind == "list"


def test_versions_that_are_not_numbers_lose_nothing() -> None:
    reflector: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
    reflector.next_request()
    one = ConfigMap(metadata=Metadata(name="a", uid="u", resource_version="x"))
    two = ConfigMap(metadata=Metadata(name="a", uid="u", resource_version="y"))
    reflector.on_list([one], "x")
    reflector.next_request()
    assert [change.type for change in reflector.on_event("MODIFIED", two)] == ["modified"]
    assert [change.type for change in reflector.on_event("DELETED", two)] == ["deleted"]


def test_the_view_follows_the_copy_across_lists() -> None:
    reflector = following()
    view = reflector.objects
    reflector.on_request_end(RequestEnd.GONE, 0.0)
    reflector.next_request()
    reflector.on_list([item_of("a", "u1", 12)], "12")
    assert list(view) == [("n", "a")]
