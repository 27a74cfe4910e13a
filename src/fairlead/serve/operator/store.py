"""The objects that the operator observes, and which resource owns each of them. Pure.

Objects stay as the bytes that arrived, and are decoded for the pass that needs them. Documents come without
`managedFields`, which are as large as the rest, where a controller sees them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cluster.meta import Metadata, OwnerReference, Raw
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.cluster.watch.reflector import compare_versions
from fairlead.keys import APPLIED, RETAINED_FOR
from fairlead.reconcile import Manifest, ResourceController, ResourceKind
from fairlead.serve.operator.kinds import ObjectId, retained_for

_READY: Final = "Ready"
_UNREAD: Final[Mapping[str, tuple[str, ...]]] = {"Node": ("images",)}
"""Parts of the status of watched kinds that no controller reads, and that are large."""


@dataclass(frozen=True, slots=True)
class Affected:
    """The resources that a change concerns."""

    changed: tuple[ObjectId, ...] = ()
    """They, or what they own."""
    urgent: tuple[ObjectId, ...] = ()
    """Those that a person has created, changed or deleted."""
    watched: ResourceKind | None = None
    """The kind on which resources depend, where the change matters to them."""


@dataclass(frozen=True, slots=True)
class WrittenObject:
    """An object as the API server answered that it is now."""

    key: ObjectId
    uid: str
    version: str
    """Empty: it is deleted, or being deleted."""
    is_new: bool = False
    """It did not exist before: while the store has none, the store is behind."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a resource says in its condition Ready."""

    kind: str
    name: str
    """`namespace/name`."""
    is_ready: bool
    reason: str
    """Empty: it says nothing yet."""

    @classmethod
    def of(cls, key: ObjectId, resource: Manifest) -> "Readiness":
        """Read it from the status."""
        conditions = (resource.get("status") or {}).get("conditions") or ()
        ready: Manifest = next((each for each in conditions if each.get("type") == _READY), {})
        name = "/".join(filter(None, (key.namespace, key.name)))
        return cls(key.kind.plural, name, ready.get("status") == "True", str(ready.get("reason") or ""))


class ObjectStore:
    """Objects by kind, namespace and name."""

    def __init__(self, controllers: Sequence[ResourceController]) -> None:
        self._kinds = {
            (kind.api_version, kind.kind): kind
            for one in controllers
            for kind in (one.resource, *one.owns, *one.watches)
        }
        self._resources = {one.resource for one in controllers}
        self._watched = {kind for one in controllers for kind in one.watches}
        self._objects: dict[ObjectId, Raw] = {}
        self._names: defaultdict[ResourceKind, set[ObjectId]] = defaultdict(set)
        self._owned: defaultdict[str, set[ObjectId]] = defaultdict(set)
        """The objects by the uid of their controller, or by the namespace and label of what is retained."""
        self._documents: dict[ObjectId, Manifest] = {}
        """Of watched kinds: every pass reads all of them."""
        self._ready: dict[ObjectId, Readiness] = {}
        """Of resources: metrics are rendered twice a second, and must not decode them."""
        self._listed: dict[ResourceKind, tuple[Manifest, ...]] = {}

    def kind_of(self, api_version: str, kind: str) -> ResourceKind | None:
        """Return a kind by what a manifest says; None where no controller names it."""
        return self._kinds.get((api_version, kind))

    def get(self, key: ObjectId) -> Raw | None:
        """Return an object; None where it does not exist, or is not observed."""
        return self._objects.get(key)

    def names(self, kind: ResourceKind) -> list[ObjectId]:
        """Return all objects of a kind, in the order of their names."""
        return sorted(self._names[kind])

    def count(self, kind: ResourceKind) -> int:
        """Return the number of objects of a kind."""
        return len(self._names[kind])

    def readiness(self) -> list[Readiness]:
        """Return what each resource says of itself in its condition Ready."""
        return [self._ready[key] for key in sorted(self._ready)]

    def owned(
        self, owner: ObjectId, uid: str, kinds: Sequence[ResourceKind]
    ) -> dict[ObjectId, dict[str, Any]]:
        """Return the objects of these kinds that belong to a resource, in the order of their names."""
        retained = self._owned.get(f"{owner.namespace}/{retained_for(owner)}", set())
        keys = sorted(key for key in self._owned.get(uid, set()) | retained if key.kind in kinds)
        return {key: self._objects[key].document() for key in keys}

    def watched(self, kind: ResourceKind) -> tuple[Manifest, ...]:
        """Return every object of a watched kind, as controllers see it."""
        if kind not in self._listed:
            self._listed[kind] = tuple(self._documents[key] for key in self.names(kind))
        return self._listed[kind]

    def has_seen(self, written: "WrittenObject") -> bool:
        """Say whether the store shows a write, or a later state of the object."""
        live = self._objects.get(written.key)
        if live is None:
            return not written.is_new
        if live.metadata.uid != written.uid:
            return True
        if not written.version:
            return bool(live.metadata.deletion_timestamp)
        return compare_versions(live.metadata.resource_version, written.version) >= 0

    def on_change(self, change: ObjectChange[Raw]) -> Affected:
        """Store a change, and return what it concerns."""
        kind = self.kind_of(change.object.api_version, change.object.kind)
        if kind is None:
            return Affected()
        key = ObjectId(kind, *change.key)
        self._put(key, change)
        concerned = self._owners(change)
        urgent: tuple[ObjectId, ...] = ()
        if kind in self._resources:
            concerned = (*concerned, key)
            urgent = (key,) if _is_by_a_person(change) else ()
        matters = kind in self._watched and self._put_watched(key, change.new)
        return Affected(concerned, urgent, kind if matters else None)

    def _put(self, key: ObjectId, change: ObjectChange[Raw]) -> None:
        if change.old is not None and (before := _owner(change.old.metadata)):
            self._owned[before].discard(key)
            if not self._owned[before]:
                del self._owned[before]
        if change.new is None:
            self._ready.pop(key, None)
            self._objects.pop(key, None)
            self._names[key.kind].discard(key)
            return
        if key.kind in self._resources:
            self._ready[key] = Readiness.of(key, change.new.document())
        self._objects[key] = change.new
        self._names[key.kind].add(key)
        if owner := _owner(change.new.metadata):
            self._owned[owner].add(key)

    def _put_watched(self, key: ObjectId, now: Raw | None) -> bool:
        """Store an object of a watched kind; say whether more than a heartbeat has changed."""
        before = self._documents.pop(key, None)
        self._listed.pop(key.kind, None)
        if now is None:
            return before is not None
        document = self._documents[key] = shown(now.document())
        return before is None or _without_heartbeats(before) != _without_heartbeats(document)

    def _owners(self, change: ObjectChange[Raw]) -> tuple[ObjectId, ...]:
        """Return the resources that own an object, before and after its change."""
        owners = []
        for item in filter(None, (change.old, change.new)):
            reference = _controller(item.metadata)
            kind = self.kind_of(reference.api_version, reference.kind) if reference is not None else None
            if reference is not None and kind in self._resources and kind is not None:
                namespace = item.metadata.namespace if kind.namespaced else ""
                owners.append(ObjectId(kind, namespace, reference.name))
            plural, _, name = item.metadata.labels.get(RETAINED_FOR, "").partition(".")
            owners += [
                ObjectId(each, item.metadata.namespace, name)
                for each in self._resources
                if name and each.plural == plural
            ]
        return tuple(dict.fromkeys(owners))


def shown(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document as controllers see it.

    The hash of what was applied is hidden: it would change with every copy of an observed object.
    """
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    if APPLIED in (metadata.get("annotations") or {}):
        metadata["annotations"] = {
            name: value for name, value in metadata["annotations"].items() if name != APPLIED
        }
    whole = {**document, "metadata": metadata}
    unread = _UNREAD.get(document.get("kind", ""), ())
    if unread and document.get("status"):
        whole["status"] = {name: value for name, value in document["status"].items() if name not in unread}
    return whole


def _without_heartbeats(document: Manifest) -> dict[str, Any]:
    """Return a document without what changes although nothing happens."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "resourceVersion"}
    status = document.get("status") or {}
    conditions = _timeless(status.get("conditions") or ())
    return {**document, "metadata": metadata, "status": {**status, "conditions": conditions}}


def _timeless(conditions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in one.items() if name != "lastHeartbeatTime"} for one in conditions]


def _owner(metadata: Metadata) -> str:
    """Return what an object belongs to; empty: nothing that is ours."""
    reference = _controller(metadata)
    if reference is not None:
        return reference.uid
    retained = metadata.labels.get(RETAINED_FOR)
    return f"{metadata.namespace}/{retained}" if retained else ""


def _controller(metadata: Metadata) -> OwnerReference | None:
    return next((one for one in metadata.owner_references if one.controller), None)


def _is_by_a_person(change: ObjectChange[Raw]) -> bool:
    """Say whether a resource was created or deleted, or its spec changed: not its status alone."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    before, now = old.metadata, new.metadata
    return (before.generation, before.deletion_timestamp) != (now.generation, now.deletion_timestamp)
