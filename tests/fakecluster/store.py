"""Objects under growing versions, with as much history as a watch may ask for. Pure."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.cluster.watch.changes import Key
from tests.fakecluster.patches import Owners

Document = Mapping[str, Any]
_EMPTY: Final[Mapping[Key, "Record"]] = {}


@dataclass(frozen=True, slots=True)
class Record:
    """An object as it is kept, and who set which of its fields."""

    document: Document
    owners: Owners = field(default_factory=dict)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the object says of itself."""
        found: Mapping[str, Any] = self.document.get("metadata", {})
        return found


@dataclass(frozen=True, slots=True)
class Entry:
    """One write: what was there before and after."""

    version: int
    resource: str
    before: Record | None
    after: Record | None


class Store:
    """Every object of every resource, and the last `history` writes."""

    def __init__(self, history: int) -> None:
        self._history = history
        self._records: dict[str, dict[Key, Record]] = {}
        self._log: list[Entry] = []
        self.version = 1
        self.compacted = 1
        """Watches from before this version cannot be served."""

    def get(self, resource: str, key: Key) -> Record | None:
        """Return an object, if there is one."""
        return self._records.get(resource, _EMPTY).get(key)

    def all(self, resource: str) -> list[Record]:
        """Return the objects of a resource in the order of their keys."""
        found = self._records.get(resource, _EMPTY)
        return [found[key] for key in sorted(found)]

    def places(self) -> list[tuple[str, Key]]:
        """Return where there is an object."""
        return [(resource, key) for resource, records in self._records.items() for key in records]

    def commit(self, resource: str, key: Key, record: Record | None) -> Record:
        """Write or remove an object under the next version; return it as it is now, or was at the end."""
        self.version += 1
        records = self._records.setdefault(resource, {})
        before = records.pop(key, None)
        if record is not None:
            records[key] = record = with_version(record, self.version)
        self._log.append(Entry(self.version, resource, before, record))
        if len(self._log) > 2 * self._history:
            self.compact(self._log[-self._history].version)
        left = record or before
        assert left is not None, "only what is there can be removed"
        return left if record else with_version(left, self.version)

    def since(self, version: int) -> Iterator[Entry]:
        """Yield the writes after a version."""
        start = bisect_right(self._log, version, key=lambda entry: entry.version)
        yield from self._log[start:]

    def compact(self, version: int) -> None:
        """Forget the writes up to a version."""
        self.compacted = max(self.compacted, min(version, self.version))
        self._log = list(self.since(self.compacted))


def with_version(record: Record, version: int) -> Record:
    """Return an object under a version."""
    metadata = {**record.metadata, "resourceVersion": str(version)}
    return Record({**record.document, "metadata": metadata}, record.owners)


def watch_event(entry: Entry, resource: str, match: Callable[[Document], bool]) -> tuple[str, Record] | None:
    """Return what a watch of some of the objects is told of a write; one that stops matching is deleted."""
    if entry.resource != resource:
        return None
    was = entry.before is not None and match(entry.before.document)
    now = entry.after is not None and match(entry.after.document)
    if entry.after is not None and now:
        return ("MODIFIED" if was else "ADDED"), entry.after
    return (
        ("DELETED", with_version(entry.before, entry.version)) if entry.before is not None and was else None
    )
