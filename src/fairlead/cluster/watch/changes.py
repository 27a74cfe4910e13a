"""The changes between two states of an object, and the queue of changes for a slow reader. Pure."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal

from fairlead.cluster.meta import T

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


@dataclass(frozen=True, slots=True)
class ObjectChange(Generic[T]):
    """One object before and after a change; at least one of the two exists."""

    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """The object as last seen."""
        last = self.new if self.new is not None else self.old
        assert last is not None, "a change has an object"
        return last

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return self.object.key

    @property
    def type(self) -> Literal["added", "modified", "deleted"]:
        """What happened to the object."""
        if self.old is None:
            return "added"
        return "deleted" if self.new is None else "modified"


def changes_between(old: T | None, new: T | None) -> list[ObjectChange[T]]:
    """Return the changes between two observed objects of one name; another uid is another object."""
    if old is None or new is None:
        return [] if old is new else [ObjectChange(old, new)]
    if old.metadata.uid != new.metadata.uid:
        return [ObjectChange(old, None), ObjectChange(None, new)]
    return [] if old.metadata.resource_version == new.metadata.resource_version else [ObjectChange(old, new)]


def diff_objects(old: Mapping[Key, T], new: Mapping[Key, T]) -> list[ObjectChange[T]]:
    """Return the changes from one set of objects to another; deletions come first, for they make room."""
    deleted = [ObjectChange(before, None) for key, before in old.items() if key not in new]
    return deleted + [change for key, now in new.items() for change in changes_between(old.get(key), now)]


class ChangeQueue(Generic[T]):
    """The pending changes of one reader: at most one per object, however many it missed.

    A reader that never reads costs no more memory than the objects themselves. A reader that reads late
    sees the latest state instead of every state in between.
    """

    def __init__(self) -> None:
        self._pending: OrderedDict[Key, tuple[T | None, T | None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, change: ObjectChange[T]) -> None:
        """Add a change; an object that is already in the queue keeps its place."""
        old = self._pending[change.key][0] if change.key in self._pending else change.old
        if old is None and change.new is None:
            del self._pending[change.key]  # created and deleted before the reader saw it
        else:
            self._pending[change.key] = (old, change.new)

    def take(self) -> list[ObjectChange[T]]:
        """Return the changes of the object that has waited longest; none if it is back in its old state."""
        _, (old, new) = self._pending.popitem(last=False)
        return changes_between(old, new)
