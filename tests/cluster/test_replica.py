"""The informer's machine: whatever a server says and leaves unsaid, the copy and the changes stay true."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.cluster.changes import Backlog, Change, Key, between
from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import ConfigMap
from fairlead.cluster.replica import End, Replica, Timing

NAMES = ("a", "b", "c", "d")
names = st.sampled_from(NAMES)
Told = tuple[str, ConfigMap]
"""One line of a watch: what happened, and to which object."""


def sight(item: ConfigMap) -> tuple[str, str]:
    """Which object it is, and in which state."""
    return item.metadata.uid, item.metadata.resource_version


def sights(objects: Mapping[Key, ConfigMap]) -> dict[Key, tuple[str, str]]:
    return {key: sight(item) for key, item in objects.items()}


def bookmark(version: int, *, complete: bool = False) -> Told:
    return "COMPLETE" if complete else "BOOKMARK", item_of("", "", version)


def item_of(name: str, uid: str, version: int) -> ConfigMap:
    return ConfigMap(metadata=Metadata(name=name, namespace="n", uid=uid, resource_version=str(version)))


@dataclass
class Server:
    """As much of an API server as decides what a watch tells."""

    version: int = 10
    compacted: int = 10
    births: int = 0
    objects: dict[str, ConfigMap] = field(default_factory=dict)
    log: list[Told] = field(default_factory=list)

    def write(self, name: str, *, remove: bool) -> None:
        """Create, change or remove an object."""
        old = self.objects.get(name)
        if old is None and remove:
            return
        self.version += 1
        self.births += old is None
        uid = f"u{self.births}" if old is None else old.metadata.uid
        item = item_of(name, uid, self.version)
        if remove:
            del self.objects[name]
        else:
            self.objects[name] = item
        self.log.append(("DELETED" if remove else "ADDED" if old is None else "MODIFIED", item))

    def since(self, version: int) -> list[Told]:
        return [told for told in self.log if int(told[1].metadata.resource_version) > version]

    def state(self) -> dict[Key, tuple[str, str]]:
        return sights({item.key: item for item in self.objects.values()})


class Reader:
    """Believes nothing but the changes it is told, and complains of any that does not fit."""

    def __init__(self) -> None:
        self.known: dict[Key, ConfigMap] = {}
        self.heard: list[Change[ConfigMap]] = []

    def take(self, changes: Iterable[Change[ConfigMap]]) -> None:
        for change in changes:
            known = self.known.get(change.key)
            assert (known and sight(known)) == (change.old and sight(change.old)), (
                "the old state is the one told last"
            )
            assert (
                change.old is None or change.new is None or change.old.metadata.uid == change.new.metadata.uid
            )
            assert sight(change.old) != sight(change.new) if change.old and change.new else True, (
                "nothing twice"
            )
            self.heard.append(change)
            if change.new is None:
                del self.known[change.key]
            else:
                self.known[change.key] = change.new


class Wire:
    """A server, a machine that follows it, and all that can go wrong between the two."""

    def __init__(self, streams: bool) -> None:
        self.server = Server()
        self.streams = streams
        self.replica: Replica[ConfigMap] = Replica(Timing(), Random(1))
        self.reader = Reader()
        self.misled = False
        """A bookmark ran ahead of its events: only a list can heal what a cut makes of that."""
        self.request()

    # The server's own life.

    def write(self, dice: Random) -> None:
        for _ in range(dice.randint(1, 4)):
            self.server.write(dice.choice(NAMES), remove=dice.random() < 0.4)

    def replace(self, dice: Random) -> None:
        """Put another object in the place of one."""
        name = dice.choice(NAMES)
        self.server.write(name, remove=True)
        self.server.write(name, remove=False)

    def compact(self, dice: Random) -> None:
        self.server.compacted = self.server.version

    def restore(self, dice: Random) -> None:
        """Put an older backup in place of the server's state, and cut everyone off.

        They ask again before new writes reuse the lost versions: past that nobody could tell.
        """
        target = max(10, self.server.version - dice.randint(1, 5))
        old, self.server = self.server, Server(births=self.server.births + 100)
        for what, item in old.log:
            if int(item.metadata.resource_version) <= target:
                self.server.log.append((what, item))
                self.server.objects.pop(item.metadata.name, None)
                if what != "DELETED":
                    self.server.objects[item.metadata.name] = item
        self.server.version = self.server.compacted = target
        self.end(End.AWAY)

    # One request after the other, as the machine asks for them.

    def request(self) -> None:
        """Ask what the machine wants asked, until something streams."""
        step = self.replica.next()
        assert 0 <= step.wait <= Timing().longest_pause
        self.line: list[Told] = []
        self.spoken: list[Told] = []
        self.misled = self.misled and step.ask == "watch"
        self.cursor = self.server.version
        if step.ask == "list":
            self.reader.take(self.replica.listed(self.server.objects.values(), str(self.server.version)))
            self.request()
        elif step.ask == "watch":
            self.cursor = int(step.version)
            if self.cursor < self.server.compacted:
                self.end(End.GONE)
            elif self.cursor > self.server.version:
                self.end(End.TOO_NEW)
        elif self.streams:
            self.line = [("ADDED", item) for item in self.server.objects.values()]
            Random(self.server.version).shuffle(self.line)
            self.line.append(bookmark(self.server.version, complete=True))
        else:
            self.end(End.REFUSED)

    def deliver(self, dice: Random, most: int = 8) -> None:
        """Speak the next lines; live events may come before the list they follow is declared complete."""
        news = self.server.since(self.cursor)
        self.cursor = self.server.version
        if dice.random() < 0.5 and self.line and self.line[-1][0] == "COMPLETE":
            self.line[-1:] = [*news, bookmark(self.server.version, complete=True)]
        else:
            self.line += news
        for _ in range(dice.randint(0, most)):
            if self.line:
                self.say(self.line.pop(0))

    def repeat(self, dice: Random) -> None:
        """Say again what was said on this connection, not only the last of it."""
        if self.spoken:
            start = dice.randrange(len(self.spoken))
            for told in self.spoken[start : start + dice.randint(1, 3)]:
                self.say(told)

    def mark(self, dice: Random) -> None:
        """Speak a bookmark: in its place, late, or before the events that it vouches for."""
        self.deliver(dice, most=0)
        if self.line and dice.random() < 0.5:
            self.misled = True
            self.say(bookmark(self.server.version))
        elif not self.line:
            self.say(bookmark(self.server.version - dice.choice((0, 0, 1, 3))))

    def over(self, dice: Random) -> None:
        self.end(dice.choice(list(End)), dice.choice((0.0, 45.0)))

    def end(self, end: End, lasted: float = 0.0) -> None:
        """End the request that is under way, and ask the next."""
        self.replica.ended(end, lasted)
        self.request()

    def say(self, told: Told) -> None:
        what, item = told
        was_following = self.replica.following
        if what in ("BOOKMARK", "COMPLETE"):
            version = item.metadata.resource_version
            self.reader.take(self.replica.marked(version, complete=what == "COMPLETE"))
        else:
            self.reader.take(self.replica.observed(what, item))
        self.spoken.append(told)
        if was_following and not self.replica.following:
            self.end(End.CLOSED)

    # What must hold.

    def check(self) -> None:
        """What was told is what is known, and nothing is lost on a way that has not lied."""
        assert sights(self.reader.known) == sights(self.replica.objects)
        if self.replica.following and not self.line and not self.misled:
            seen = Server()
            for what, item in self.server.log:
                if int(item.metadata.resource_version) <= self.cursor:
                    seen.objects.pop(item.metadata.name, None)
                    if what != "DELETED":
                        seen.objects[item.metadata.name] = item
            assert sights(self.replica.objects) == seen.state()

    def settle(self) -> None:
        """Let all go well for once: the copy is the server's state, without anyone asking for a list."""
        if self.misled:
            self.end(End.GONE)
        while self.line or self.cursor != self.server.version:
            self.deliver(Random(1), most=1000)
        assert self.replica.synced
        assert sights(self.replica.objects) == self.server.state()
        self.check()


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


writes = st.lists(st.tuples(names, st.booleans()), max_size=30)


@given(writes, st.integers(0, 2**32))
def test_a_watch_that_is_cut_and_resumed_tells_every_write_once_and_in_order(
    script: list[tuple[str, bool]], seed: int
) -> None:
    server, reader, random = Server(), Reader(), Random(seed)
    replica: Replica[ConfigMap] = Replica(Timing(), random)
    replica.next()
    reader.take(replica.listed([], str(server.version)))
    for name, remove in script:
        server.write(name, remove=remove)
    while int((step := replica.next()).version) < server.version:
        assert step.ask == "watch", "no list is needed where nothing was missed"
        for what, item in server.since(int(step.version))[: random.randint(1, 5)]:
            for _ in range(random.choice((1, 1, 2))):
                reader.take(replica.observed(what, item))
        replica.ended(random.choice((End.CLOSED, End.AWAY)), 0.1)
    assert [sight(change.object) for change in reader.heard if change.new] == [
        sight(item) for what, item in server.log if what != "DELETED"
    ]
    assert [change.type.upper() for change in reader.heard] == [what for what, _ in server.log]


@given(writes, st.randoms(use_true_random=False))
def test_a_slow_reader_keeps_one_step_per_object_and_ends_where_the_world_does(
    script: list[tuple[str, bool]], random: Random
) -> None:
    server, reader = Server(), Reader()
    backlog: Backlog[ConfigMap] = Backlog()
    for name, remove in script:
        old = server.objects.get(name)
        server.write(name, remove=remove)
        for change in between(old, server.objects.get(name)):
            backlog.put(change)
        assert len(backlog) <= len(NAMES)
        while len(backlog) and random.random() < 0.3:
            reader.take(backlog.take())
    while len(backlog):
        reader.take(backlog.take())
    assert sights(reader.known) == server.state()


def following(version: int = 10) -> Replica[ConfigMap]:
    replica: Replica[ConfigMap] = Replica(Timing(), Random(1))
    replica.next()
    replica.listed([], str(version))
    replica.next()
    return replica


@pytest.mark.parametrize(
    ("end", "heard", "ask"),
    [
        (End.CLOSED, True, "watch"),
        (End.CLOSED, False, "stream"),
        (End.AWAY, True, "watch"),
        (End.AWAY, False, "watch"),
        (End.SILENT, True, "stream"),
        (End.GONE, True, "stream"),
        (End.TOO_NEW, True, "stream"),
        (End.REFUSED, True, "stream"),
        (End.FAILED, True, "stream"),
    ],
)
def test_what_is_asked_after_a_watch(end: End, heard: bool, ask: str) -> None:
    replica = following()
    if heard:
        replica.observed("ADDED", item_of("a", "u1", 11))
    replica.ended(end, 0.1)
    step = replica.next()
    assert step.ask == ask
    assert step.version == (("11" if heard else "10") if ask == "watch" else "")


def test_something_that_lets_no_watch_through_is_worked_around() -> None:
    replica = following()
    asked = []
    for _ in range(12):
        replica.ended(End.AWAY, 0.0)
        asked.append(replica.next().ask)
    assert asked == ["watch"] * 11 + ["stream"]


def test_pauses_grow_and_stay_below_their_bound() -> None:
    replica: Replica[ConfigMap] = Replica(Timing(pause=1, longest_pause=8), Random(1))
    waits = []
    for _ in range(40):
        replica.next()
        replica.ended(End.AWAY, 0.0)
        waits.append(replica.next().wait)
    assert max(waits[:2]) <= 4
    assert 4 < max(waits) <= 8


def test_a_server_that_is_away_costs_no_list() -> None:
    replica = following()
    for _ in range(5):
        replica.ended(End.AWAY, 0.0)
        assert replica.next().ask == "watch"


def test_a_watch_that_ends_at_once_with_nothing_said_is_a_list() -> None:
    replica = following()
    replica.ended(End.CLOSED, 0.1)
    assert replica.next().ask == "stream"


def test_a_quiet_watch_that_lived_some_time_goes_on() -> None:
    replica = following()
    replica.ended(End.CLOSED, 60.0)
    assert replica.next().ask == "watch"


def test_quiet_watches_one_after_the_other_are_a_silence() -> None:
    replica = following()
    for _ in range(2):
        replica.ended(End.CLOSED, 40.0)
        assert replica.next().ask == "watch"
    replica.ended(End.CLOSED, 40.0)
    assert replica.next().ask == "stream"


def test_a_server_that_always_forgets_is_not_asked_ever_faster() -> None:
    replica = following()
    waits = []
    for _ in range(12):
        replica.ended(End.GONE, 0.0)
        waits.append(replica.next().wait)
        replica.listed([], "10")
        assert replica.next().wait == 0, "a watch follows its list at once"
    assert max(waits[6:]) > 5


def test_a_server_that_does_not_stream_is_never_asked_to_again() -> None:
    replica: Replica[ConfigMap] = Replica(Timing(), Random(1))
    assert replica.next().ask == "stream"
    replica.ended(End.REFUSED, 0.0)
    for _ in range(3):
        assert replica.next().ask == "list"
        replica.ended(End.AWAY, 0.0)


def test_a_streamed_list_that_never_ends_is_asked_for_in_pages() -> None:
    replica: Replica[ConfigMap] = Replica(Timing(), Random(1))
    replica.next()
    replica.ended(End.SILENT, 90.0)
    assert replica.next().ask == "list"


def test_versions_that_are_no_numbers_lose_nothing() -> None:
    replica: Replica[ConfigMap] = Replica(Timing(), Random(1))
    replica.next()
    one = ConfigMap(metadata=Metadata(name="a", uid="u", resource_version="x"))
    two = ConfigMap(metadata=Metadata(name="a", uid="u", resource_version="y"))
    replica.listed([one], "x")
    replica.next()
    assert [change.type for change in replica.observed("MODIFIED", two)] == ["modified"]
    assert [change.type for change in replica.observed("DELETED", two)] == ["deleted"]


def test_the_view_stays_true_across_lists() -> None:
    replica = following()
    view = replica.objects
    replica.ended(End.GONE, 0.0)
    replica.next()
    replica.listed([item_of("a", "u1", 12)], "12")
    assert list(view) == [("n", "a")]
