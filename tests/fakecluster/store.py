"""Objects under growing versions, with a bounded history for watches. Pure."""

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
    """A stored object, and the owners of its fields."""

    document: Document
    owners: Owners = field(default_factory=dict)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The object's metadata."""
        metadata: Mapping[str, Any] = self.document.get("metadata", {})
        return metadata


@dataclass(frozen=True, slots=True)
class Entry:
    """One write: the object before and after."""

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
        """Return an object, or None."""
        return self._records.get(resource, _EMPTY).get(key)

    def all(self, resource: str) -> list[Record]:
        """Return the objects of a resource in the order of their keys."""
        records = self._records.get(resource, _EMPTY)
        return [records[key] for key in sorted(records)]

    def places(self) -> list[tuple[str, Key]]:
        """Return the resource and key of every object."""
        return [(resource, key) for resource, records in self._records.items() for key in records]

    def commit(self, resource: str, key: Key, record: Record | None) -> Record:
        """Write or remove an object under the next version; return its new or its last state."""
        self.version += 1
        records = self._records.setdefault(resource, {})
        before = records.pop(key, None)
        if record is not None:
            records[key] = record = with_version(record, self.version)
        self._log.append(Entry(self.version, resource, before, record))
        if len(self._log) > 2 * self._history:
            self.compact(self._log[-self._history].version)
        last = record or before
        assert last is not None, "only an existing object can be removed"
        return last if record else with_version(last, self.version)

    def since(self, version: int) -> Iterator[Entry]:
        """Yield the writes after a version."""
        start = bisect_right(self._log, version, key=lambda entry: entry.version)
        yield from self._log[start:]

    def compact(self, version: int) -> None:
        """Drop the writes up to a version."""
        self.compacted = max(self.compacted, min(version, self.version))
        self._log = list(self.since(self.compacted))


def with_version(record: Record, version: int) -> Record:
    """Return an object with a resource version."""
    metadata = {**record.metadata, "resourceVersion": str(version)}
    return Record({**record.document, "metadata": metadata}, record.owners)


def watch_event(entry: Entry, resource: str, match: Callable[[Document], bool]) -> tuple[str, Record] | None:
    """Return the event of a write for a watch with selectors; an object that stops matching is deleted."""
    if entry.resource != resource:
        return None
    was = entry.before is not None and match(entry.before.document)
    now = entry.after is not None and match(entry.after.document)
    if entry.after is not None and now:
        return ("MODIFIED" if was else "ADDED"), entry.after
    return (
        ("DELETED", with_version(entry.before, entry.version)) if entry.before is not None and was else None
    )
