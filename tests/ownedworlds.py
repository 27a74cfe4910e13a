"""The small world of one resource of ours: what its operator has stored, and what it does with a decision."""

import copy
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from fairlead.keys import APPLIED
from fairlead.ownedobjects.kinds import digest
from fairlead.reconcile import Announcement, Manifest, Reconciled, ResourceKind

Json = dict[str, Any]
Key = tuple[str, str]
"""Kind and name of an object."""


class StoredWorld:
    """What is stored, and what has happened."""

    def __init__(self, resource: Json, now: datetime) -> None:
        self.resource = resource
        self.objects: dict[Key, Json] = {}
        self.now = now
        self.writes: list[str] = []
        self.events: list[Announcement] = []
        self.is_gone = False

    def reconcile(self) -> Reconciled:
        """Let the operator do what is due once."""
        raise NotImplementedError

    def settle(self) -> list[str]:
        """Reconcile until nothing is written any more, and return what was."""
        begin = len(self.writes)
        for _ in range(20):
            before = len(self.writes)
            self.reconcile()
            if len(self.writes) == before:
                return self.writes[begin:]
        raise AssertionError(f"not settled: {self.writes[begin:]}")

    def _owned(self, kinds: Iterable[ResourceKind]) -> dict[ResourceKind, tuple[Json, ...]]:
        """Return copies of the stored objects, by kind."""
        stored = sorted(self.objects.items())
        return {
            kind: tuple(copy.deepcopy(each) for (name, _), each in stored if name == kind.kind)
            for kind in kinds
        }

    def _apply(self, decided: Reconciled) -> None:
        wanted = {(each["kind"], each["metadata"]["name"]): each for each in decided.objects}
        for key, each in wanted.items():
            known = self.objects.get(key)
            if known is None:
                self._write("create", key, each)
            elif known["metadata"]["annotations"][APPLIED] != digest(each):
                self._write("change", key, each)
        for key in sorted(self.objects.keys() - wanted.keys() - decided.keep):
            if key in decided.force:
                del self.objects[key]
                self.writes.append(f"force {'/'.join(key)}")
            else:
                self._delete(key)
        if decided.status is not None and self.resource.get("status") != decided.status:
            self.writes.append("status")
            self.resource["status"] = copy.deepcopy(dict(decided.status))
        self.events += decided.announcements
        self.is_gone = decided.is_finished

    def _write(self, verb: str, key: Key, each: Manifest) -> None:
        raise NotImplementedError

    def _delete(self, key: Key) -> None:
        stored = self.objects[key]
        if key[0] != "Pod":
            del self.objects[key]
        elif "deletionTimestamp" not in stored["metadata"]:
            grace = timedelta(seconds=stored["spec"]["terminationGracePeriodSeconds"])
            stored["metadata"]["deletionTimestamp"] = (self.now + grace).isoformat()
        else:
            return
        self.writes.append(f"delete {'/'.join(key)}")
