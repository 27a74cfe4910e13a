"""As much of a server, a wire and a reader as decides whether the informer's machine can be believed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import ConfigMap
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.cluster.watch.reflector import Reflector, RequestEnd, WatchTiming

NAMES = ("a", "b", "c", "d")
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
        self.heard: list[ObjectChange[ConfigMap]] = []

    def take(self, changes: Iterable[ObjectChange[ConfigMap]]) -> None:
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
        self.replica: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
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
        self.end(RequestEnd.UNAVAILABLE)

    # One request after the other, as the machine asks for them.

    def request(self) -> None:
        """Ask what the machine wants asked, until something streams."""
        step = self.replica.next_request()
        assert 0 <= step.delay <= WatchTiming().max_backoff
        self.line: list[Told] = []
        self.spoken: list[Told] = []
        self.misled = self.misled and step.kind == "watch"
        self.cursor = self.server.version
        if step.kind == "list":
            self.reader.take(self.replica.on_list(self.server.objects.values(), str(self.server.version)))
            self.request()
        elif step.kind == "watch":
            self.cursor = int(step.version)
            if self.cursor < self.server.compacted:
                self.end(RequestEnd.GONE)
            elif self.cursor > self.server.version:
                self.end(RequestEnd.TOO_NEW)
        elif self.streams:
            self.line = [("ADDED", item) for item in self.server.objects.values()]
            Random(self.server.version).shuffle(self.line)
            self.line.append(bookmark(self.server.version, complete=True))
        else:
            self.end(RequestEnd.REFUSED)

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
        spoken = self.spoken
        if spoken:
            start = dice.randrange(len(spoken))
            for told in spoken[start : start + dice.randint(1, 3)]:
                if self.spoken is not spoken:
                    return  # the connection has ended: the next one knows nothing of it
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
        self.end(dice.choice(list(RequestEnd)), dice.choice((0.0, 45.0)))

    def end(self, end: RequestEnd, lasted: float = 0.0) -> None:
        """End the request that is under way, and ask the next."""
        self.replica.on_request_end(end, lasted)
        self.request()

    def say(self, told: Told) -> None:
        what, item = told
        was_following = self.replica.following
        if what in ("BOOKMARK", "COMPLETE"):
            version = item.metadata.resource_version
            self.reader.take(self.replica.on_bookmark(version, complete=what == "COMPLETE"))
        else:
            self.reader.take(self.replica.on_event(what, item))
        self.spoken.append(told)
        if was_following and not self.replica.following:
            self.end(RequestEnd.CLOSED)

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
            self.end(RequestEnd.GONE)
        while self.line or self.cursor != self.server.version:
            self.deliver(Random(1), most=1000)
        assert self.replica.synced
        assert sights(self.replica.objects) == self.server.state()
        self.check()
