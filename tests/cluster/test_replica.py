"""The informer's machine: whatever a server says and leaves unsaid, the copy and the changes stay true."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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


class Wire(RuleBasedStateMachine):
    """A server, a machine that follows it, and all that can go wrong between the two."""

    @initialize(first=st.lists(names), streams=st.booleans())
    def start(self, first: list[str], streams: bool) -> None:
        self.server = Server()
        for name in first:
            self.server.write(name, remove=False)
        self.streams = streams
        self.replica: Replica[ConfigMap] = Replica(Timing(), Random(1))
        self.reader = Reader()
        self.line: list[Told] = []
        self.spoken: list[Told] = []
        self.misled = False
        """A bookmark ran ahead of its events: only a list can heal what a cut makes of that."""
        self.request()

    # The server's own life.

    @rule(script=st.lists(st.tuples(names, st.booleans()), min_size=1, max_size=6))
    def write(self, script: list[tuple[str, bool]]) -> None:
        for name, remove in script:
            self.server.write(name, remove=remove)

    @rule(name=names)
    def replace(self, name: str) -> None:
        """Put another object in the place of one."""
        self.server.write(name, remove=True)
        self.server.write(name, remove=False)

    @rule()
    def compact(self) -> None:
        self.server.compacted = self.server.version

    @rule(back=st.integers(1, 5))
    def restore(self, back: int) -> None:
        """Put an older backup in place of the server's state, and cut everyone off.

        They ask again before new writes reuse the lost versions: past that nobody could tell.
        """
        target = max(10, self.server.version - back)
        old, self.server = self.server, Server(births=self.server.births + 100)
        for what, item in old.log:
            if int(item.metadata.resource_version) <= target:
                self.server.log.append((what, item))
                self.server.objects.pop(item.metadata.name, None)
                if what != "DELETED":
                    self.server.objects[item.metadata.name] = item
        self.server.version = self.server.compacted = target
        self.over(End.AWAY)

    # One request after the other, as the machine asks for them.

    def request(self) -> None:
        """Ask what the machine wants asked, until something streams."""
        step = self.replica.next()
        assert 0 <= step.wait <= Timing().longest_pause
        self.ask, self.line, self.spoken = step.ask, [], []
        self.misled = self.misled and step.ask == "watch"
        self.cursor = self.server.version
        if step.ask == "list":
            self.reader.take(self.replica.listed(self.server.objects.values(), str(self.server.version)))
            self.request()
        elif step.ask == "watch":
            self.cursor = int(step.version)
            if self.cursor < self.server.compacted:
                self.over(End.GONE)
            elif self.cursor > self.server.version:
                self.over(End.TOO_NEW)
        elif self.streams:
            self.line = [("ADDED", item) for item in self.server.objects.values()]
            Random(self.server.version).shuffle(self.line)
            self.line.append(bookmark(self.server.version, complete=True))
        else:
            self.over(End.REFUSED)

    @rule(count=st.integers(1, 9), early=st.booleans())
    def deliver(self, count: int, early: bool = False) -> None:
        """Speak the next lines; live events may come before the list they follow is declared complete."""
        news = self.server.since(self.cursor)
        self.cursor = self.server.version
        if early and self.line and self.line[-1][0] == "COMPLETE":
            self.line[-1:] = [*news, bookmark(self.server.version, complete=True)]
        else:
            self.line += news
        while count and self.line:
            self.say(self.line.pop(0))
            count -= 1

    @precondition(lambda self: self.spoken)
    @rule(which=st.integers(0, 20), count=st.integers(1, 3))
    def repeat(self, which: int, count: int) -> None:
        """Say again what was said on this connection, not only the last of it."""
        start = which % len(self.spoken)
        for told in self.spoken[start : start + count]:
            self.say(told)

    @rule(behind=st.integers(0, 3), ahead=st.booleans())
    def mark(self, behind: int, ahead: bool) -> None:
        """Speak a bookmark: in its place, late, or before the events that it vouches for."""
        self.deliver(0)
        if ahead and self.line:
            self.misled = True
            self.say(bookmark(self.server.version))
        elif not self.line:
            self.say(bookmark(self.server.version - behind))

    @rule(end=st.sampled_from(End), lasted=st.sampled_from((0.0, 45.0)))
    def over(self, end: End, lasted: float = 0.0) -> None:
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
            self.over(End.CLOSED)

    # What must hold.

    @invariant()
    def told_is_known(self) -> None:
        assert sights(self.reader.known) == sights(self.replica.objects)

    def teardown(self) -> None:
        """Let all go well for once: the copy is the server's state, without anyone asking for a list."""
        if not hasattr(self, "reader"):
            return
        if self.misled:
            self.over(End.GONE)
        while self.line or self.cursor != self.server.version:
            self.deliver(1000)
        assert self.replica.synced
        assert sights(self.replica.objects) == self.server.state()
        self.told_is_known()


TestWire = Wire.TestCase
TestWire.settings = settings(max_examples=150, stateful_step_count=60)

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
