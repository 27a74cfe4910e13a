"""What became of an object, and the changes that a slow reader has yet to take. Pure."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal

from fairlead.cluster.meta import T

Key = tuple[str, str]
"""Namespace (empty for objects of the whole cluster) and name."""


@dataclass(frozen=True, slots=True)
class ObjectChange(Generic[T]):
    """One object before and after; one of the two is there."""

    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """The object as last seen."""
        found = self.new if self.new is not None else self.old
        assert found is not None, "a change is of something"
        return found

    @property
    def key(self) -> Key:
        """Return where the object is, or was."""
        return self.object.key

    @property
    def type(self) -> Literal["added", "modified", "deleted"]:
        """What happened, in a word."""
        if self.old is None:
            return "added"
        return "deleted" if self.new is None else "modified"


def changes_between(old: T | None, new: T | None) -> list[ObjectChange[T]]:
    """Return what happened between two sights of a name; another uid is another object."""
    if old is None or new is None:
        return [] if old is new else [ObjectChange(old, new)]
    if old.metadata.uid != new.metadata.uid:
        return [ObjectChange(old, None), ObjectChange(None, new)]
    return [] if old.metadata.resource_version == new.metadata.resource_version else [ObjectChange(old, new)]


def diff_objects(old: Mapping[Key, T], new: Mapping[Key, T]) -> list[ObjectChange[T]]:
    """Return what leads from one set to the other; what went comes first, for it makes room."""
    gone = [ObjectChange(was, None) for key, was in old.items() if key not in new]
    return gone + [change for key, now in new.items() for change in changes_between(old.get(key), now)]


class ChangeQueue(Generic[T]):
    """What one reader has yet to take: at most one step per object, however many it missed.

    So a reader that never reads costs no more than the objects themselves, and one that reads late sees
    the latest state instead of every state in between.
    """

    def __init__(self) -> None:
        self._pending: OrderedDict[Key, tuple[T | None, T | None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, change: ObjectChange[T]) -> None:
        """Add a change; it keeps the place in the queue that the object already has."""
        old = self._pending[change.key][0] if change.key in self._pending else change.old
        if old is None and change.new is None:
            del self._pending[change.key]  # came and went unseen
        else:
            self._pending[change.key] = (old, change.new)

    def take(self) -> list[ObjectChange[T]]:
        """Return what became of the object that has waited longest; nothing when it is as it was."""
        _, (old, new) = self._pending.popitem(last=False)
        return changes_between(old, new)
