"""The objects of manifests, by kind: each object typed, and with the file that it comes from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from fairlead.cluster.http import codec
from fairlead.cluster.meta import Object
from fairlead.errors import ManifestError
from fairlead.manifest.types import dra, kubernetes, live, policy, quota, storage

KINDS: Final[Mapping[str, type[Object]]] = {
    "Pod": live.LivePod,
    "Node": kubernetes.Node,
    "Deployment": kubernetes.Controller,
    "StatefulSet": kubernetes.Controller,
    "ReplicaSet": kubernetes.Controller,
    "ReplicationController": kubernetes.Controller,
    "DaemonSet": kubernetes.Controller,
    "Job": kubernetes.Controller,
    "CronJob": kubernetes.CronJob,
    "PodDisruptionBudget": policy.PodDisruptionBudget,
    "PriorityClass": kubernetes.PriorityClass,
    "PodGroup": kubernetes.PodGroup,
    "Workload": kubernetes.Workload,
    "ResourceClaim": live.LiveClaim,
    "ResourceClaimTemplate": dra.ResourceClaimTemplate,
    "DeviceClass": dra.DeviceClass,
    "ResourceSlice": dra.Slice,
    "PersistentVolumeClaim": storage.VolumeClaim,
    "PersistentVolume": storage.Volume,
    "StorageClass": storage.StorageClass,
    "ResourceQuota": quota.ResourceQuota,
}
"""Every kind that affects the placement of pods; other kinds in a file are ignored."""
_CLUSTER_SCOPED: Final = frozenset(
    {"Node", "PriorityClass", "DeviceClass", "ResourceSlice", "PersistentVolume", "StorageClass"}
)
"""Kinds without a namespace."""
Kinds = Mapping[str, type[Object]]
_DEEPEST: Final = 4
"""The deepest nesting of lists in lists."""


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object and the place where it was found."""

    where: str
    """The file and the object: `pods.yaml: Pod default/web`."""
    kind: str
    body: Any


@dataclass(frozen=True, slots=True)
class FoundObjects:
    """The objects of files or of a cluster, by kind and name."""

    entries: tuple[FoundObject, ...] = ()
    _index: dict[tuple[str, str, str], FoundObject] = field(default_factory=dict)
    _kinds: dict[str, list[FoundObject]] = field(default_factory=dict)
    unlisted: Mapping[str, str] = field(default_factory=dict)
    """Kinds that the server refused to list, and its reason."""

    @classmethod
    def of(cls, entries: Iterable[FoundObject], unlisted: Mapping[str, str] | None = None) -> "FoundObjects":
        """Index objects; two objects of one kind and name are rejected."""
        objects = tuple(entries)
        index: dict[tuple[str, str, str], FoundObject] = {}
        kinds: dict[str, list[FoundObject]] = {}
        for entry in objects:
            kinds.setdefault(entry.kind, []).append(entry)
            key = (entry.kind, *entry.body.key)
            if key in index:
                raise ManifestError(
                    f"{entry.where}: defined twice, first in {index[key].where}", "rename one"
                )
            index[key] = entry
        return cls(objects, index, kinds, unlisted or {})

    def all(self, kind: str) -> list[FoundObject]:
        """Return every object of a kind, in the order of the files."""
        return self._kinds.get(kind, [])

    def get(self, kind: str, namespace: str, name: str) -> Any | None:
        """Return one object; None where there is none."""
        entry = self._index.get((kind, "" if kind in _CLUSTER_SCOPED else namespace, name))
        return entry.body if entry else None

    def near(self, kind: str, namespace: str, name: str) -> str:
        """Return a hint that names objects of this namespace instead; other namespaces stay private."""
        names = sorted(key[2] for key in self._index if key[:2] == (kind, namespace))
        close = get_close_matches(name, names, 1, 0.6)
        if close:
            return f"did you mean {close[0]}?"
        return f"found: {', '.join(names[:5])}" if names else f"add the {kind}"


def is_kubernetes(document: Any) -> bool:
    """Return whether a document looks like a Kubernetes object."""
    return isinstance(document, dict) and "kind" in document and "apiVersion" in document


def collect(documents: Iterable[tuple[str, Any]], kinds: Kinds = KINDS) -> FoundObjects:
    """Return the objects of documents; lists are expanded, and kinds that are not in `kinds` left out."""
    return FoundObjects.of(entry for where, value in documents for entry in _expand(where, value, kinds, 0))


def read_object(where: str, kind: str, document: Mapping[str, Any], kinds: Kinds = KINDS) -> FoundObject:
    """Return one object, or raise an error that names its invalid field."""
    metadata = document.get("metadata")
    meta: Mapping[str, Any] = metadata if isinstance(metadata, dict) else {}
    name = meta.get("name") or meta.get("generateName")
    if not isinstance(name, str):
        raise ManifestError(f"{where}: {kind}: metadata.name: missing", "give it a name")
    cluster_scoped = kind in _CLUSTER_SCOPED
    namespace = "" if cluster_scoped else str(meta.get("namespace") or "default")
    place = f"{where}: {kind} {name}" if cluster_scoped else f"{where}: {kind} {namespace}/{name}"
    named = {**document, "metadata": {**meta, "name": name.rstrip("-"), "namespace": namespace}}
    try:
        return FoundObject(place, kind, codec.from_document(kinds[kind], named))
    except ValueError as error:
        raise ManifestError(f"{place}: {error}", "see the Kubernetes reference") from None


def _expand(where: str, value: Any, kinds: Kinds, depth: int) -> Iterable[FoundObject]:
    if not is_kubernetes(value):
        raise ManifestError(
            f"{where}: neither a Kubernetes object nor the short form",
            "write apiVersion and kind, or nodes: or workloads: of the short form",
        )
    kind = value["kind"]
    if not isinstance(kind, str):
        raise ManifestError(f"{where}: kind: {kind!r} is not a string", "write kind: Pod")
    items = value.get("items")
    if kind.endswith("List") and isinstance(items, list) and depth < _DEEPEST:
        for at, item in enumerate(items):
            whole = item if is_kubernetes(item) else _list_item(value, item)
            yield from _expand(f"{where}: items[{at}]", whole, kinds, depth + 1)
    elif kind in kinds:
        yield read_object(where, kind, value, kinds)


def _list_item(list_document: Mapping[str, Any], item: Any) -> Any:
    """Return an item as an object: items of a PodList leave out apiVersion and kind."""
    if not isinstance(item, dict):
        return item
    return {
        "apiVersion": list_document["apiVersion"],
        "kind": list_document["kind"].removesuffix("List"),
        **item,
    }
