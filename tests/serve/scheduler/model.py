"""A small model of the API server: objects with versions, and the checks of a write."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fairlead.cluster.kinds import Kind
from fairlead.errors import AlreadyExistsError, ConflictError, NotFoundError
from tests.fakecluster import patches
from tests.serve.scheduler.objects import read

Document = dict[str, Any]
Place = tuple[str, str]
"""The plural of a kind, and a name: all live in one namespace."""


@dataclass(frozen=True)
class Event:
    """An event of a watch."""

    type: str
    object: Document


@dataclass
class Api:
    """The stored objects, and their history."""

    objects: dict[Place, Document] = field(default_factory=dict)
    history: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    """By the plural of a kind."""
    evicted: list[Document] = field(default_factory=list)
    """Pods as they were when they were evicted."""
    version: int = 0
    born: int = 0
    _read: dict[str, Any] = field(default_factory=dict)

    def create(self, plural: str, document: Document) -> Document:
        """Create an object."""
        place = (plural, document["metadata"]["name"])
        if place in self.objects:
            raise AlreadyExistsError(f"{place[1]} is there already")
        self.born += 1
        assigned = {
            "uid": f"{self.born:08}-{place[1]}",
            "creationTimestamp": f"2026-01-01T00:00:{self.born:02}Z",
        }
        meta = {"namespace": "default", **document["metadata"], **assigned}
        return self._store(place, "ADDED", {**document, "metadata": meta})

    def delete(self, plural: str, name: str, body: Document | None = None) -> Document:
        """Delete an object; it stays while it has finalizers."""
        stored = self.get(plural, name)
        _check(stored, (body or {}).get("preconditions", {}))
        if stored["metadata"].get("finalizers"):
            meta = {**stored["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            return self._store((plural, name), "MODIFIED", {**stored, "metadata": meta})
        return self._remove((plural, name), stored)

    def get(self, plural: str, name: str) -> Document:
        """Return an object."""
        if (plural, name) not in self.objects:
            raise NotFoundError(f"no {name}")
        return self.objects[plural, name]

    def all(self, plural: str) -> Iterator[Document]:
        """Return every object of a kind."""
        return (each for (kind, _), each in sorted(self.objects.items()) if kind == plural)

    def read(self, kind: Kind[Any], document: Document) -> Any:
        """Return a document as a client decodes it; each version is decoded once."""
        version = document["metadata"]["resourceVersion"]
        if version not in self._read:
            self._read[version] = read(kind, document)
        return self._read[version]

    def list_objects(self, kind: Kind[Any]) -> list[Any]:
        """Return every object of a kind, as a client decodes them."""
        return [self.read(kind, each) for each in self.all(kind.plural)]

    def request(self, method: str, path: str, body: bytes | None, content_type: str) -> bytes:
        """Answer as the API server would on success; else raise what its client would."""
        document = json.loads(body or b"{}")
        plural, name, part = _place(path)
        answers = {
            "GET": lambda: self.get(plural, name),
            "POST": lambda: self._post(plural, name, part, document),
            "PUT": lambda: self._replace(plural, name, document),
            "PATCH": lambda: self._patch(plural, name, part, document, content_type),
            "DELETE": lambda: self.delete(plural, name, document),
        }
        return json.dumps(answers[method]()).encode()

    def _post(self, plural: str, name: str, part: str, document: Document) -> Document:
        if part == "eviction":
            return self.evict(name, document)
        return self.bind(name, document) if part else self.create(plural, document)

    def evict(self, name: str, eviction: Document) -> Document:
        """Delete a pod, if the preconditions hold; record the pod as it was."""
        pod = self.get("pods", name)
        options = eviction.get("deleteOptions", {})
        _check(pod, options.get("preconditions", {}))
        if options.get("dryRun"):
            return pod
        self.evicted.append(pod)
        return self.delete("pods", name)

    def bind(self, name: str, binding: Document) -> Document:
        """Bind a pod to a node, with the binding's annotations, in one step."""
        pod = self.get("pods", name)
        _check(pod, binding["metadata"])
        if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            raise ConflictError(f"pod {name} is already bound, or is being deleted")
        notes = {**pod["metadata"].get("annotations", {}), **binding["metadata"].get("annotations", {})}
        spec = {**pod["spec"], "nodeName": binding["target"]["name"]}
        meta = {**pod["metadata"], "annotations": notes}
        return self._store(("pods", name), "MODIFIED", {**pod, "metadata": meta, "spec": spec})

    def _patch(self, plural: str, name: str, part: str, patch: Document, content_type: str) -> Document:
        old = self.get(plural, name)
        _check(old, patch.get("metadata", {}))
        change = patches.strategic if "strategic" in content_type else patches.merge
        wanted = change(old, patch)
        if part == "status":  # it takes annotations too
            notes = {"annotations": wanted["metadata"].get("annotations", {})}
            wanted = {**old, "metadata": {**old["metadata"], **notes}, "status": wanted.get("status", {})}
        else:
            wanted = {**wanted, "status": old.get("status", {})}
        kept = {key: old["metadata"][key] for key in ("uid", "resourceVersion", "name", "namespace")}
        return self._update((plural, name), old, {**wanted, "metadata": {**wanted["metadata"], **kept}})

    def _replace(self, plural: str, name: str, document: Document) -> Document:
        old = self.get(plural, name)
        _check(old, document["metadata"])
        return self._update((plural, name), old, document)

    def _update(self, place: Place, old: Document, new: Document) -> Document:
        if new == old:
            return old  # nothing changed: neither does the version
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return self._remove(place, new)
        return self._store(place, "MODIFIED", new)

    def _store(self, place: Place, what: str, document: Document) -> Document:
        self.version += 1
        kept = {**document, "metadata": {**document["metadata"], "resourceVersion": str(self.version)}}
        self.objects[place] = kept
        self.history[place[0]].append(Event(what, kept))
        return kept

    def _remove(self, place: Place, document: Document) -> Document:
        last = self._store(place, "DELETED", document)
        del self.objects[place]
        return last


def _check(stored: Document, precise: Document) -> None:
    for key in ("uid", "resourceVersion"):
        if precise.get(key) and precise[key] != stored["metadata"][key]:
            raise ConflictError(f"{stored['metadata']['name']}: {key} is not {precise[key]}")


def _place(path: str) -> tuple[str, str, str]:
    """Return the plural, the name and the subresource of a path, below a namespace or not."""
    inside = path.partition("/namespaces/")[2].split("/")[1:]
    steps = inside or path.split("/")[3:]  # /api/v1/persistentvolumes/NAME
    plural, name, part = (*steps, "", "")[:3]
    return plural, name, part
