"""The informer's machine: whatever a server says and leaves unsaid, the copy and the changes stay true."""

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
def test_whatever_is_said_and_left_unsaid_the_copy_comes_true(
    script: list[tuple[str, int]], streams: bool
) -> None:
    wire = Wire(streams)
    for name, seed in script:
        getattr(wire, name)(Random(seed))
        wire.check()
    wire.settle()


writes = st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=30)


@given(writes, st.integers(0, 2**32))
def test_a_watch_that_is_cut_and_resumed_tells_every_write_once_and_in_order(
    script: list[tuple[str, bool]], seed: int
) -> None:
    server, reader, random = Server(), Reader(), Random(seed)
    replica: Reflector[ConfigMap] = Reflector(WatchTiming(), random)
    replica.next_request()
    reader.take(replica.on_list([], str(server.version)))
    for name, remove in script:
        server.write(name, remove=remove)
    while int((step := replica.next_request()).version) < server.version:
        assert step.kind == "watch", "no list is needed where nothing was missed"
        for what, item in server.since(int(step.version))[: random.randint(1, 5)]:
            for _ in range(random.choice((1, 1, 2))):
                reader.take(replica.on_event(what, item))
        replica.on_request_end(random.choice((RequestEnd.CLOSED, RequestEnd.UNAVAILABLE)), 0.1)
    assert [sight(change.object) for change in reader.heard if change.new] == [
        sight(item) for what, item in server.log if what != "DELETED"
    ]
    assert [change.type.upper() for change in reader.heard] == [what for what, _ in server.log]


@given(writes, st.randoms(use_true_random=False))
def test_a_slow_reader_keeps_one_step_per_object_and_ends_where_the_world_does(
    script: list[tuple[str, bool]], random: Random
) -> None:
    server, reader = Server(), Reader()
    backlog: ChangeQueue[ConfigMap] = ChangeQueue()
    for name, remove in script:
        old = server.objects.get(name)
        server.write(name, remove=remove)
        for change in changes_between(old, server.objects.get(name)):
            backlog.put(change)
        assert len(backlog) <= len(NAMES)
        while len(backlog) and random.random() < 0.3:
            reader.take(backlog.take())
    while len(backlog):
        reader.take(backlog.take())
    assert sights(reader.known) == server.state()


def following(version: int = 10) -> Reflector[ConfigMap]:
    replica: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
    replica.next_request()
    replica.on_list([], str(version))
    replica.next_request()
    return replica


@pytest.mark.parametrize(
    ("end", "heard", "ask"),
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
def test_what_is_asked_after_a_watch(end: RequestEnd, heard: bool, ask: str) -> None:
    replica = following()
    if heard:
        replica.on_event("ADDED", item_of("a", "u1", 11))
    replica.on_request_end(end, 0.1)
    step = replica.next_request()
    assert step.kind == ask
    assert step.version == (("11" if heard else "10") if ask == "watch" else "")


def test_a_bookmark_from_the_past_is_a_reason_to_list() -> None:
    replica = following(20)
    replica.on_bookmark("15", complete=False)
    assert not replica.following
    replica.on_request_end(RequestEnd.CLOSED, 0.1)
    assert replica.next_request().kind != "watch"


def test_what_is_said_again_while_a_list_arrives_changes_nothing() -> None:
    replica: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
    replica.next_request()
    old, new, gone = item_of("a", "u1", 11), item_of("a", "u1", 12), item_of("b", "u2", 13)
    for what, item in (("ADDED", old), ("MODIFIED", new), ("ADDED", old)):
        replica.on_event(what, item)
    for what, item in (
        ("ADDED", item_of("b", "u2", 10)),
        ("DELETED", gone),
        ("ADDED", item_of("b", "u2", 10)),
    ):
        replica.on_event(what, item)
    assert not replica.objects, "nothing is known before all is"
    assert not replica.on_bookmark("13", complete=False)
    changes = replica.on_bookmark("13", complete=True)
    assert [(change.type, change.new) for change in changes] == [("added", new)]


def test_something_that_lets_no_watch_through_is_worked_around() -> None:
    replica = following()
    asked = []
    for _ in range(12):
        replica.on_request_end(RequestEnd.UNAVAILABLE, 0.0)
        asked.append(replica.next_request().kind)
    assert asked == ["watch"] * 11 + ["stream"]


def test_pauses_grow_and_stay_below_their_bound() -> None:
    replica: Reflector[ConfigMap] = Reflector(WatchTiming(initial_backoff=1, max_backoff=8), Random(1))
    waits = []
    for _ in range(40):
        replica.next_request()
        replica.on_request_end(RequestEnd.UNAVAILABLE, 0.0)
        waits.append(replica.next_request().delay)
    assert max(waits[:2]) <= 4
    assert 4 < max(waits) <= 8


def test_a_server_that_is_away_costs_no_list() -> None:
    replica = following()
    for _ in range(5):
        replica.on_request_end(RequestEnd.UNAVAILABLE, 0.0)
        assert replica.next_request().kind == "watch"


def test_a_watch_that_ends_at_once_with_nothing_said_is_a_list() -> None:
    replica = following()
    replica.on_request_end(RequestEnd.CLOSED, 0.1)
    assert replica.next_request().kind == "stream"


def test_a_quiet_watch_that_lived_some_time_goes_on() -> None:
    replica = following()
    replica.on_request_end(RequestEnd.CLOSED, 60.0)
    assert replica.next_request().kind == "watch"


def test_a_quiet_kind_behind_something_that_cuts_is_not_asked_ever_slower() -> None:
    replica = following()
    for version in range(11, 40):  # a bookmark now and then, and a cut between two of them
        replica.on_request_end(RequestEnd.UNAVAILABLE, 50.0)
        assert replica.next_request().delay <= 2 * WatchTiming().initial_backoff
        replica.on_bookmark(str(version), complete=False)
        replica.on_request_end(RequestEnd.UNAVAILABLE, 60.0)
        assert replica.next_request().kind == "watch"


def test_quiet_watches_one_after_the_other_are_a_silence() -> None:
    replica = following()
    for _ in range(2):
        replica.on_request_end(RequestEnd.CLOSED, 40.0)
        assert replica.next_request().kind == "watch"
    replica.on_request_end(RequestEnd.CLOSED, 40.0)
    assert replica.next_request().kind == "stream"


def test_a_server_that_always_forgets_is_not_asked_ever_faster() -> None:
    replica = following()
    waits = []
    for _ in range(12):
        replica.on_request_end(RequestEnd.GONE, 0.0)
        waits.append(replica.next_request().delay)
        replica.on_list([], "10")
        assert replica.next_request().delay == 0, "a watch follows its list at once"
    assert max(waits[6:]) > 5


def test_a_server_that_does_not_stream_is_never_asked_to_again() -> None:
    replica: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
    assert replica.next_request().kind == "stream"
    replica.on_request_end(RequestEnd.REFUSED, 0.0)
    for _ in range(3):
        assert replica.next_request().kind == "list"
        replica.on_request_end(RequestEnd.UNAVAILABLE, 0.0)


def test_a_streamed_list_that_never_ends_is_asked_for_in_pages() -> None:
    replica: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
    replica.next_request()
    replica.on_request_end(RequestEnd.TIMED_OUT, 90.0)
    assert replica.next_request().kind == "list"


def test_versions_that_are_no_numbers_lose_nothing() -> None:
    replica: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
    replica.next_request()
    one = ConfigMap(metadata=Metadata(name="a", uid="u", resource_version="x"))
    two = ConfigMap(metadata=Metadata(name="a", uid="u", resource_version="y"))
    replica.on_list([one], "x")
    replica.next_request()
    assert [change.type for change in replica.on_event("MODIFIED", two)] == ["modified"]
    assert [change.type for change in replica.on_event("DELETED", two)] == ["deleted"]


def test_the_view_stays_true_across_lists() -> None:
    replica = following()
    view = replica.objects
    replica.on_request_end(RequestEnd.GONE, 0.0)
    replica.next_request()
    replica.on_list([item_of("a", "u1", 12)], "12")
    assert list(view) == [("n", "a")]
