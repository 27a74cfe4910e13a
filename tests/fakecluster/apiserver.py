"""What an API server does with a request, given its store: the fake cluster without watches."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final
from uuid import UUID

from fairlead.cluster.kinds import CRDS, KINDS, NAMESPACES, PODS, Kind
from fairlead.cluster.meta import Cause
from fairlead.cluster.times import format_time
from fairlead.cluster.watch.changes import Key
from tests.fakecluster import ownership, patches, rules
from tests.fakecluster.patches import OwnershipError, PatchError
from tests.fakecluster.rules import Refused, Rules
from tests.fakecluster.selectors import Match, by_fields, by_labels, fields_of
from tests.fakecluster.store import Document, Record, Store

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated names: no vowels, so no words."""
_PATCH_FUNCTIONS: Final = {"merge": patches.merge, "strategic": patches.strategic, "json": patches.operations}


class FakeApiServer:
    """Every object, and the rules by which it may change."""

    def __init__(self, now: Callable[[], datetime], random: Random, history: int) -> None:
        self.store = Store(history)
        self._now = now
        self._random = random
        self._rules = {resource: rules.RULES[resource] for resource in KINDS}
        for name in ("default", "kube-system"):
            self.create(NAMESPACES, "", {"metadata": {"name": name}}, "memory")

    def rules_of(self, kind: Kind[Any]) -> Rules:
        """Return the rules of a kind; refuse one that is not served."""
        if kind.resource not in self._rules:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        return self._rules[kind.resource]

    def get(self, kind: Kind[Any], key: Key) -> Record:
        """Return an object; refuse one that does not exist."""
        record = self.store.get(kind.resource, key)
        if record is None:
            raise Refused(404, "NotFound", f"{kind.resource} {key[1]!r} not found", key[1])
        return record

    def all(self, kind: Kind[Any], match: Match) -> list[Record]:
        """Return the objects that match, in the order of their keys."""
        return [record for record in self.store.all(kind.resource) if match(record.document)]

    def match(self, kind: Kind[Any], namespace: str | None, labels: str | None, fields: str | None) -> Match:
        """Return the predicate of the selectors."""
        known = self.rules_of(kind).fields | {"metadata.name", "metadata.namespace"}
        for name in fields_of(fields):
            if name not in known:
                raise Refused(400, "BadRequest", f"field label not supported: {name}")
        try:
            by_label, by_field = by_labels(labels), by_fields(fields)
        except ValueError as error:
            raise Refused(400, "BadRequest", str(error)) from None
        in_namespace = namespace if kind.namespaced else None
        return lambda document: (
            (not in_namespace or document["metadata"].get("namespace") == in_namespace)
            and by_label(document)
            and by_field(document)
        )

    def check_reached(self, version: str | None) -> None:
        """Refuse a version that the store has not reached."""
        if int(version or 0) > self.store.version:
            cause = Cause(reason="ResourceVersionTooLarge", message="Too large resource version")
            raise Refused(504, "Timeout", f"Too large resource version: {version}", causes=(cause,))

    def check_kept(self, version: int) -> None:
        """Refuse a version whose history is compacted."""
        if version < self.store.compacted:
            raise Refused(410, "Expired", f"too old resource version: {version} ({self.store.compacted})")

    def create(
        self, kind: Kind[Any], namespace: str, document: Document, manager: str, *, applied: bool = False
    ) -> Record:
        """Create an object."""
        metadata = document.get("metadata", {})
        name = metadata.get("name") or self._name(metadata.get("generateName", ""))
        server = {"name": name, "uid": self._uid(), "creationTimestamp": format_time(self._now())}
        if kind.namespaced:
            server["namespace"] = namespace
            if metadata.get("namespace", namespace) != namespace:
                raise Refused(400, "BadRequest", "the namespace of the object is not that of the request")
            if self.store.get(NAMESPACES.resource, ("", namespace)) is None:
                raise Refused(404, "NotFound", f"namespaces {namespace!r} not found", namespace)
        whole = rules.new_object(self.rules_of(kind), document, server)
        if self.store.get(kind.resource, (namespace, name)) is not None:
            raise Refused(409, "AlreadyExists", f"{kind.resource} {name!r} already exists")
        if kind.resource == CRDS.resource:
            whole = self._serve(whole)
        owner, owned = (manager, document) if applied else (_updater(manager), whole)
        owners = ownership.owners_after_write({}, owner, {}, owned)
        return self.store.commit(kind.resource, (namespace, name), Record(whole, owners))

    def update(self, kind: Kind[Any], key: Key, document: Document, manager: str) -> Record:
        """Replace an object."""
        return self._write(kind, key, document, manager)

    def patch(
        self, kind: Kind[Any], key: Key, patch: Any, patch_type: str, manager: str, *, status: bool = False
    ) -> Record:
        """Change an object in part."""
        old = self.get(kind, key)
        if patch_type == "strategic" and kind.resource not in KINDS:
            raise Refused(415, "UnsupportedMediaType", "custom kinds take no strategic merge patch")
        try:
            document = _PATCH_FUNCTIONS[patch_type](old.document, patch)
        except PatchError as error:
            raise Refused(422, "Invalid", str(error)) from None
        metadata = document.get("metadata", {})
        if metadata.get("name") != key[1]:
            raise Refused(400, "BadRequest", "the name of the object is not that of the request")
        if metadata.get("uid") != old.metadata["uid"]:
            raise Refused(422, "Invalid", "metadata.uid: field is immutable")
        return self._write(kind, key, document, manager, status=status)

    def apply(
        self,
        kind: Kind[Any],
        key: Key,
        config: Document,
        manager: str,
        *,
        force: bool,
        status: bool = False,
    ) -> Record:
        """Apply a manager's configuration to the fields that the manager owns."""
        old = self.store.get(kind.resource, key)
        if old is None and (status or config.get("metadata", {}).get("resourceVersion")):
            raise Refused(404, "NotFound", f"{kind.resource} {key[1]!r} not found", key[1])
        if old is None:
            config_with_name = {**config, "metadata": {**config.get("metadata", {}), "name": key[1]}}
            return self.create(kind, key[0], config_with_name, manager, applied=True)
        rules.check(old.document, config.get("metadata", {}))
        try:
            document, owners = ownership.apply(old.document, config, manager, old.owners, force=force)
        except OwnershipError as error:
            raise Refused(409, "Conflict", str(error)) from None
        return self._put(kind, key, old, self._revise(kind, old, document, status=status), owners)

    def delete(self, kind: Kind[Any], key: Key, only_if: Mapping[str, str | None], grace: int | None) -> None:
        """Delete an object, or mark it as deleting."""
        old = self.get(kind, key)
        rules.check(old.document, only_if)
        seconds = rules.grace_of(self.rules_of(kind), old.document, grace)
        at = format_time(self._now() + timedelta(seconds=seconds))
        self._put(kind, key, old, rules.deleting_object(old.document, at, seconds), old.owners)

    def bind(self, key: Key, uid: str, node: str) -> None:
        """Bind a pod to a node."""
        old = self.get(PODS, key)
        rules.check(old.document, {"uid": uid})
        name = key[1]
        if old.metadata.get("deletionTimestamp"):
            raise Refused(409, "Conflict", f"pod {name} is being deleted, cannot be assigned to a host")
        if assigned := old.document["spec"].get("nodeName"):
            raise Refused(409, "Conflict", f"pod {name} is already assigned to node {assigned!r}")
        if old.document["spec"].get("schedulingGates"):
            raise Refused(409, "Conflict", f"pod {name} has non-empty .spec.schedulingGates")
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(self._now())}
        change = {"spec": {"nodeName": node}, "status": {"conditions": [scheduled]}}
        self.store.commit(PODS.resource, key, Record(patches.strategic(old.document, change), old.owners))

    def _write(
        self, kind: Kind[Any], key: Key, document: Document, manager: str, *, status: bool = False
    ) -> Record:
        old = self.get(kind, key)
        new = self._revise(kind, old, document, status=status)
        return self._put(
            kind,
            key,
            old,
            new,
            ownership.owners_after_write(old.owners, _updater(manager), old.document, new),
        )

    def _revise(self, kind: Kind[Any], old: Record, document: Document, *, status: bool) -> dict[str, Any]:
        if status and not self.rules_of(kind).status:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        new = rules.updated_object(self.rules_of(kind), old.document, document, status=status)
        if kind.resource == PODS.resource:
            rules.check_pod(old.document, new)
        return new

    def _put(self, kind: Kind[Any], key: Key, old: Record, new: Document, owners: patches.Owners) -> Record:
        """Store a changed object; skip an unchanged one, and remove one whose deletion is complete."""
        if rules.is_over(new):
            return self._remove(kind, key, Record(new, owners))
        if new == old.document and owners == old.owners:
            return old
        return self.store.commit(kind.resource, key, Record(new, owners))

    def _remove(self, kind: Kind[Any], key: Key, last: Record) -> Record:
        """Remove an object, and the objects inside it: there is no controller to do that."""
        if kind.resource == NAMESPACES.resource:
            self._empty(lambda _, inner: inner[0] == key[1])
        if kind.resource == CRDS.resource:
            served = key[1]
            self._empty(lambda resource, _: resource == served)
            self._rules.pop(served, None)
        return self.store.commit(kind.resource, key, None)

    def _empty(self, dead: Callable[[str, Key], bool]) -> None:
        for resource, key in self.store.places():
            if dead(resource, key):
                self.store.commit(resource, key, None)

    def _serve(self, definition: Document) -> dict[str, Any]:
        """Start to serve a custom kind; the real server takes a moment for it."""
        spec = definition["spec"]
        apart = any("status" in version.get("subresources", {}) for version in spec["versions"])
        self._rules[definition["metadata"]["name"]] = rules.CUSTOM_WITH_STATUS if apart else rules.CUSTOM
        conditions = [{"type": name, "status": "True"} for name in ("NamesAccepted", "Established")]
        return {**definition, "status": {"conditions": conditions}}

    def _name(self, prefix: str) -> str:
        if not prefix:
            raise Refused(422, "Invalid", "metadata.name: Required value: name or generateName is required")
        return prefix + "".join(self._random.choice(_LETTERS) for _ in range(5))

    def _uid(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))


def _updater(manager: str) -> str:
    """Return the owner of the fields of a plain write: not the same as the applying manager of that name."""
    return f"{manager} (update)"
