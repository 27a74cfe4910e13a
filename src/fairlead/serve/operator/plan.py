"""What differs between the objects that a resource needs and those that exist. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fairlead.errors import NewerFormatError
from fairlead.keys import APPLIED, FINALIZER, MANAGED_BY, MANAGER, RETAINED_FOR
from fairlead.reconcile import Manifest, Reconciled, ResourceKind
from fairlead.serve.operator import applied
from fairlead.serve.operator.applied import APPLIED_HASHES, AppliedHash
from fairlead.serve.operator.kinds import ObjectId, controller_reference, metadata_of
from fairlead.serve.operator.store import ObjectStore

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One write that a plan needs."""

    action: Literal["create", "apply", "delete"]
    key: ObjectId
    uid: str = ""
    """Of the object that exists: another object of its name is left alone."""
    body: Document = field(default_factory=dict)
    """The manifest; of a deletion: its options."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of a pass in their order, and the objects that cannot be made so."""

    changes: tuple[Change, ...]
    conflicts: Mapping[ObjectId, str]


class AppliedMemory:
    """The managed fields of each object as the last write of this replica left them.

    The API server may drop or rename a field: a manifest with such a field is never managed as a whole, and
    must not be written again and again.
    """

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def note(self, uid: str, live: Document) -> None:
        """Note the fields of an object that this replica has just written, or found as it must be."""
        self._fields[uid] = applied.digest(applied.owned_fields(live))

    def is_as_left(self, uid: str, live: Document) -> bool | None:
        """Say whether an object has the fields that were noted; None where none were."""
        known = self._fields.get(uid)
        return None if known is None else known == applied.digest(applied.owned_fields(live))

    def forget(self, uid: str) -> None:
        """Forget an object that is gone."""
        self._fields.pop(uid, None)


@dataclass(frozen=True, slots=True)
class ObjectPlanner:
    """Compares wanted objects with observed ones."""

    store: ObjectStore
    memory: AppliedMemory

    def plan(
        self,
        resource: Document,
        owns: tuple[ResourceKind, ...],
        owned: Mapping[ObjectId, Document],
        wanted: Reconciled,
    ) -> Plan:
        """Return the writes by which the objects of a resource become what is wanted."""
        changes: list[Change] = []
        conflicts: dict[ObjectId, str] = {}
        names: set[ObjectId] = set()
        for manifest in wanted.objects:
            key, problem = self._key(resource, owns, manifest)
            if not problem and key in names:
                problem = "the controller wants two objects of this name"
            names.add(key)
            outcome = problem or self._compare(resource, key, manifest, owned.get(key))
            if isinstance(outcome, str):
                conflicts[key] = outcome
            elif outcome is not None:
                changes.append(outcome)
        changes += self._deletions(owned, names, wanted)
        return Plan(tuple(changes), conflicts)

    def _key(
        self, resource: Document, owns: tuple[ResourceKind, ...], manifest: Manifest
    ) -> tuple[ObjectId, str]:
        """Return which object a manifest describes, and why the resource may not own it."""
        metadata, home = metadata_of(manifest), metadata_of(resource).get("namespace", "")
        api_version, name = str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))
        kind = self.store.kind_of(api_version, name)
        if kind is None or kind not in owns:
            unknown = kind or ResourceKind(api_version, name, name.lower())
            return ObjectId(unknown, home, metadata.get("name", "")), "the controller does not own this kind"
        key = ObjectId(kind, home if kind.namespaced else "", metadata.get("name", ""))
        if not kind.namespaced and home:
            return key, "an object outside namespaces cannot belong to one inside"
        if metadata.get("namespace", home) != home:
            return key, f"its namespace is {metadata['namespace']}, that of its owner {home}"
        return key, "" if key.name else "it has no name"

    def _compare(
        self, resource: Document, key: ObjectId, manifest: Manifest, live: Document | None
    ) -> Change | str | None:
        """Return the write that an object needs, why it cannot have it, or None where it needs none."""
        wanted = applied.hash_of(manifest)
        body = dressed(resource, key, manifest, wanted)
        if live is None:
            other = self.store.get(key)
            if other is None:
                return Change("create", key, body=body)
            return self.claim(resource, key, body, other.document())
        metadata = metadata_of(live)
        if metadata.get("deletionTimestamp"):
            return None  # it is made again once it is gone
        current = applied.read_hash(live)
        if isinstance(current, NewerFormatError):
            return f"a newer operator made it: {current}"
        if current is not None and current.immutable != wanted.immutable:
            part = applied.IMMUTABLE[key.kind.api_version, key.kind.kind]
            return f"it exists with another {part}, which cannot be changed: delete it first"
        if current == wanted and self._is_untouched(metadata["uid"], live, body):
            return None
        return Change("apply", key, metadata["uid"], body)

    def _is_untouched(self, uid: str, live: Document, body: Document) -> bool:
        """Say whether no other client has changed what was applied."""
        known = self.memory.is_as_left(uid, live)
        if known is None:
            fields = applied.owned_fields(live)
            known = bool(fields) and applied.manages_all(fields, body)
            if known:
                self.memory.note(uid, live)
        return known

    def claim(self, resource: Document, key: ObjectId, body: Document, live: Document) -> Change | str:
        """Return the write for an object that exists unobserved; another owner's object is left alone.

        It is ours where the watch is behind, and where another client has removed its label or its owner.
        """
        owner, metadata = controller_reference(live), metadata_of(live)
        if owner is not None and owner.get("uid") != metadata_of(resource)["uid"]:
            return f"an object of this name belongs to {owner.get('kind')} {owner.get('name')}"
        if owner is None and applied.read_hash(live) is None:
            return "another client made an object of this name: delete it, or rename one of the two"
        if metadata.get("deletionTimestamp"):
            return "an older object of this name is being deleted"
        return Change("apply", key, metadata["uid"], body)

    def _deletions(
        self,
        owned: Mapping[ObjectId, Document],
        names: set[ObjectId],
        wanted: Reconciled,
    ) -> Iterator[Change]:
        for key, live in owned.items():
            metadata, name = metadata_of(live), (key.kind.kind, key.name)
            if key in names or name in wanted.keep:
                continue
            if name in wanted.force:
                yield Change("delete", key, metadata["uid"], {"gracePeriodSeconds": 0})
            elif not metadata.get("deletionTimestamp"):
                yield Change("delete", key, metadata["uid"])


def dressed(resource: Document, key: ObjectId, manifest: Manifest, wanted: AppliedHash) -> dict[str, Any]:
    """Return a manifest as it is applied: with its owner unless it is retained, our label and its hash."""
    owner, metadata = metadata_of(resource), metadata_of(manifest)
    reference = {
        "apiVersion": resource["apiVersion"],
        "kind": resource["kind"],
        "name": owner["name"],
        "uid": owner["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    home = {"namespace": key.namespace} if key.namespace else {}
    whole = {
        **metadata,
        **home,
        "labels": {**(metadata.get("labels") or {}), MANAGED_BY: MANAGER},
        "annotations": {**(metadata.get("annotations") or {}), APPLIED: APPLIED_HASHES.encode(wanted)},
    }
    if RETAINED_FOR not in whole["labels"]:
        whole["ownerReferences"] = [reference]
    return {**manifest, "metadata": whole}


def has_finalizer(resource: Document) -> bool:
    """Say whether a resource waits for the operator before it is gone."""
    return FINALIZER in (metadata_of(resource).get("finalizers") or ())


def status_patch(live: Any, wanted: Any) -> Any:
    """Return the merge patch that turns one status into another; None where they are equal."""
    if not isinstance(live, Mapping) or not isinstance(wanted, Mapping):
        return None if live == wanted else wanted
    patch: dict[str, Any] = dict.fromkeys(sorted(live.keys() - wanted.keys()))
    for name, value in wanted.items():
        if name not in live:
            patch[name] = value
        elif (part := status_patch(live[name], value)) is not None:
            patch[name] = part
    return patch or None
