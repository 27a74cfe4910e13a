"""A model of a server, a connection and a reader, for testing the reflector."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import ConfigMap
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.cluster.watch.reflector import Reflector, RequestEnd, WatchTiming

NAMES = ("a", "b", "c", "d")
WatchLine = tuple[str, ConfigMap]
"""One line of a watch: the event type and the object."""


def sight(item: ConfigMap) -> tuple[str, str]:
    """Return the uid and the resource version of an object."""
    return item.metadata.uid, item.metadata.resource_version


def sights(objects: Mapping[Key, ConfigMap]) -> dict[Key, tuple[str, str]]:
    return {key: sight(item) for key, item in objects.items()}


def bookmark(version: int, *, complete: bool = False) -> WatchLine:
    return "COMPLETE" if complete else "BOOKMARK", item_of("", "", version)


def item_of(name: str, uid: str, version: int) -> ConfigMap:
    return ConfigMap(metadata=Metadata(name=name, namespace="n", uid=uid, resource_version=str(version)))


@dataclass
class Server:
    """The parts of an API server that decide which events a watch gets."""

    version: int = 10
    compacted: int = 10
    births: int = 0
    objects: dict[str, ConfigMap] = field(default_factory=dict)
    log: list[WatchLine] = field(default_factory=list)

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

    def since(self, version: int) -> list[WatchLine]:
        return [line for line in self.log if int(line[1].metadata.resource_version) > version]

    def state(self) -> dict[Key, tuple[str, str]]:
        return sights({item.key: item for item in self.objects.values()})


class Reader:
    """Knows only the changes that it received, and asserts that each follows from the one before."""

    def __init__(self) -> None:
        self.known: dict[Key, ConfigMap] = {}
        self.changes: list[ObjectChange[ConfigMap]] = []

    def take(self, changes: Iterable[ObjectChange[ConfigMap]]) -> None:
        for change in changes:
            known = self.known.get(change.key)
            assert (known and sight(known)) == (change.old and sight(change.old)), (
                "the old state is the last reported one"
            )
            assert (
                change.old is None or change.new is None or change.old.metadata.uid == change.new.metadata.uid
            )
            assert sight(change.old) != sight(change.new) if change.old and change.new else True, (
                "nothing twice"
            )
            self.changes.append(change)
            if change.new is None:
                del self.known[change.key]
            else:
                self.known[change.key] = change.new


class Wire:
    """A server, a reflector that follows it, and the faults of the connection between the two."""

    def __init__(self, streams: bool) -> None:
        self.server = Server()
        self.streams = streams
        self.reflector: Reflector[ConfigMap] = Reflector(WatchTiming(), Random(1))
        self.reader = Reader()
        self.misled = False
        """A bookmark came before its events: after a disconnect only a list can correct the copy."""
        self.request()

    # What happens on the server.

    def write(self, dice: Random) -> None:
        for _ in range(dice.randint(1, 4)):
            self.server.write(dice.choice(NAMES), remove=dice.random() < 0.4)

    def replace(self, dice: Random) -> None:
        """Replace an object with another one of the same name."""
        name = dice.choice(NAMES)
        self.server.write(name, remove=True)
        self.server.write(name, remove=False)

    def compact(self, dice: Random) -> None:
        self.server.compacted = self.server.version

    def restore(self, dice: Random) -> None:
        """Restore an older backup of the server's state, and disconnect every client.

        Clients send their next request before new writes reuse the lost versions: afterwards the two cannot
        be distinguished.
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

    # One request after the other, as the reflector asks for them.

    def request(self) -> None:
        """Send the reflector's next request, until one is a stream."""
        request = self.reflector.next_request()
        assert 0 <= request.delay <= WatchTiming().max_backoff
        self.line: list[WatchLine] = []
        self.sent: list[WatchLine] = []
        self.misled = self.misled and request.kind == "watch"
        self.cursor = self.server.version
        if request.kind == "list":
            self.reader.take(self.reflector.on_list(self.server.objects.values(), str(self.server.version)))
            self.request()
        elif request.kind == "watch":
            self.cursor = int(request.version)
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
        """Deliver the next lines; live events may come before the bookmark that ends their list."""
        news = self.server.since(self.cursor)
        self.cursor = self.server.version
        if dice.random() < 0.5 and self.line and self.line[-1][0] == "COMPLETE":
            self.line[-1:] = [*news, bookmark(self.server.version, complete=True)]
        else:
            self.line += news
        for _ in range(dice.randint(0, most)):
            if self.line:
                self.send(self.line.pop(0))

    def repeat(self, dice: Random) -> None:
        """Send lines of this connection again, not only the last ones."""
        sent = self.sent
        if sent:
            start = dice.randrange(len(sent))
            for line in sent[start : start + dice.randint(1, 3)]:
                if self.sent is not sent:
                    return  # the connection has ended: the next one does not repeat its lines
                self.send(line)

    def mark(self, dice: Random) -> None:
        """Send a bookmark: in its place, late, or before the events that it stands for."""
        self.deliver(dice, most=0)
        if self.line and dice.random() < 0.5:
            self.misled = True
            self.send(bookmark(self.server.version))
        elif not self.line:
            self.send(bookmark(self.server.version - dice.choice((0, 0, 1, 3))))

    def over(self, dice: Random) -> None:
        self.end(dice.choice(list(RequestEnd)), dice.choice((0.0, 45.0)))

    def end(self, end: RequestEnd, lasted: float = 0.0) -> None:
        """End the current request, and send the next."""
        self.reflector.on_request_end(end, lasted)
        self.request()

    def send(self, line: WatchLine) -> None:
        what, item = line
        was_following = self.reflector.following
        if what in ("BOOKMARK", "COMPLETE"):
            version = item.metadata.resource_version
            self.reader.take(self.reflector.on_bookmark(version, complete=what == "COMPLETE"))
        else:
            self.reader.take(self.reflector.on_event(what, item))
        self.sent.append(line)
        if was_following and not self.reflector.following:
            self.end(RequestEnd.CLOSED)

    # What must hold.

    def check(self) -> None:
        """Check that the changes give the copy, and that nothing is lost without a wrong bookmark."""
        assert sights(self.reader.known) == sights(self.reflector.objects)
        if self.reflector.following and not self.line and not self.misled:
            seen = Server()
            for what, item in self.server.log:
                if int(item.metadata.resource_version) <= self.cursor:
                    seen.objects.pop(item.metadata.name, None)
                    if what != "DELETED":
                        seen.objects[item.metadata.name] = item
            assert sights(self.reflector.objects) == seen.state()

    def deliver_all(self) -> None:
        """Deliver everything without a fault: the copy equals the server's state, without a list request."""
        if self.misled:
            self.end(RequestEnd.GONE)
        while self.line or self.cursor != self.server.version:
            self.deliver(Random(1), most=1000)
        assert self.reflector.synced
        assert sights(self.reflector.objects) == self.server.state()
        self.check()
