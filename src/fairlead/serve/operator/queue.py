"""The queue of resources to reconcile: each once, one pass at a time, later after each failure. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.serve.operator.kinds import ObjectId

_DOUBLINGS: Final = 30


@dataclass(frozen=True, slots=True)
class FailureDelay:
    """The seconds before a failed pass is repeated; they double."""

    initial: float = 0.2
    longest: float = 30.0

    def delay(self, failures: int, longest: float) -> float:
        """Return the delay after this number of failures in a row."""
        return min(longest, self.longest, self.initial * 2.0 ** min(failures - 1, _DOUBLINGS))


class WorkQueue:
    """Resources to reconcile, in the order of their arrival."""

    def __init__(self, backoff: FailureDelay) -> None:
        self._backoff = backoff
        self._active: dict[ObjectId, None] = {}
        self._running: set[ObjectId] = set()
        self._changed: set[ObjectId] = set()
        """Resources that changed while a pass over them ran."""
        self._due: dict[ObjectId, float] = {}
        """When a resource is reconciled even if nothing changes."""
        self._blocked: dict[ObjectId, float] = {}
        """Until when changes of a resource wait, after a failure."""
        self._failures: Counter[ObjectId] = Counter()

    def add(self, key: ObjectId, now: float) -> None:
        """Queue a resource that changed; one that has failed keeps its delay."""
        if key in self._running:
            self._changed.add(key)
        elif self._blocked.get(key, now) <= now:
            self._activate(key)

    def add_urgent(self, key: ObjectId, now: float) -> None:
        """Queue a resource whose user changed it: earlier failures do not count any more."""
        self._failures.pop(key, None)
        self._blocked.pop(key, None)
        self.add(key, now)

    def add_all(self, keys: Iterable[ObjectId], now: float) -> None:
        """Queue resources that may have to change."""
        for key in keys:
            self.add(key, now)

    def take(self) -> ObjectId | None:
        """Return the resource to reconcile now, which runs until `done` or `failed`; None: there is none."""
        key = next(iter(self._active), None)
        if key is not None:
            del self._active[key]
            self._running.add(key)
        return key

    def done(self, key: ObjectId, now: float, again_after: float | None = None) -> None:
        """End a pass that succeeded."""
        self._running.discard(key)
        self._failures.pop(key, None)
        self._blocked.pop(key, None)
        if key in self._changed:
            self._changed.discard(key)
            self._activate(key)
        elif again_after is not None:
            self._due[key] = now + again_after

    def failed(self, key: ObjectId, now: float, longest: float = float("inf")) -> float:
        """End a pass that failed, and return the seconds until the next one."""
        self._running.discard(key)
        self._changed.discard(key)  # the next pass sees every change
        self._failures[key] += 1
        delay = self._backoff.delay(self._failures[key], longest)
        self._due[key] = self._blocked[key] = now + delay
        return delay

    def flush_due(self, now: float) -> None:
        """Queue the resources whose time has come."""
        for key in [key for key, due in self._due.items() if due <= now]:
            self._blocked.pop(key, None)
            if key in self._running:
                self._changed.add(key)
                del self._due[key]
            else:
                self._activate(key)

    def forget(self, key: ObjectId) -> None:
        """End a pass over a resource that is gone."""
        again = key in self._changed
        for known in (self._active, self._due, self._blocked, self._failures):
            known.pop(key, None)
        self._running.discard(key)
        self._changed.discard(key)
        if again:  # another resource may have its name already
            self._activate(key)

    def clear(self) -> None:
        """Forget what waits; passes that run end by themselves."""
        for known in (self._active, self._due, self._blocked, self._failures):
            known.clear()
        self._changed.clear()

    def lengths(self) -> Mapping[str, int]:
        """Return the number of resources by their state, for metrics."""
        return {"active": len(self._active), "running": len(self._running), "backoff": len(self._blocked)}

    def _activate(self, key: ObjectId) -> None:
        self._due.pop(key, None)
        self._active.setdefault(key)
