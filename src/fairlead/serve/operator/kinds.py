"""Kinds of controllers as kinds of the client, and objects as references to them. Pure."""

from typing import Any, NamedTuple

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Raw
from fairlead.reconcile import Manifest, ResourceKind


class ObjectId(NamedTuple):
    """One object of a cluster, by its names."""

    kind: ResourceKind
    namespace: str
    """Empty for a cluster-scoped object."""
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind.kind} {where}{self.name}"


def retained_for(key: ObjectId) -> str:
    """Return the value of the label of objects that are retained for a resource."""
    return f"{key.kind.plural}.{key.name}"


def client_kind(kind: ResourceKind) -> Kind[Raw]:
    """Return the client's form of a kind."""
    group, _, version = kind.api_version.rpartition("/")
    return Kind.of(group, version, kind.plural, namespaced=kind.namespaced, name=kind.kind)


def metadata_of(document: Manifest) -> dict[str, Any]:
    """Return the metadata of a document; empty where it has none."""
    metadata: dict[str, Any] = document.get("metadata") or {}
    return metadata


def controller_reference(document: Manifest) -> dict[str, Any] | None:
    """Return the reference to the object's controller; None where it has none."""
    references = metadata_of(document).get("ownerReferences") or ()
    return next((one for one in references if one.get("controller")), None)
