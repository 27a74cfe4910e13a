"""The kinds of objects that this program uses, and how to describe another one."""

from dataclasses import dataclass
from typing import Final, Generic
from urllib.parse import quote

from fairlead.cluster.meta import Object, Raw, T
from fairlead.cluster.objects import (
    ConfigMap,
    CustomResourceDefinition,
    Event,
    Lease,
    Namespace,
    Node,
    Pod,
    ResourceSlice,
    ServiceAccount,
)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of object: its path on the API server, and the type that it is decoded to."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    namespaced: bool
    type: type[T]
    name: str = ""
    """The `kind:` of a manifest; filled in for a created object that does not name it."""
    whole: bool = False
    """Whether the type has every field of the kind, so that an update cannot erase one."""

    @staticmethod
    def of(group: str, version: str, plural: str, *, namespaced: bool, name: str = "") -> "Kind[Raw]":
        """Describe a kind that is not in the table below."""
        return Kind(group, version, plural, namespaced, Raw, name, whole=True)

    def raw(self) -> "Kind[Raw]":
        """Return the same kind, decoded with all fields."""
        return Kind.of(self.group, self.version, self.plural, namespaced=self.namespaced, name=self.name)

    @property
    def api_version(self) -> str:
        """The `apiVersion:` of a manifest."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The name in roles and error messages: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str = "", sub: str = "") -> str:
        """Return the path of the kind, or of one object of it, on the server."""
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts += [self.plural, *([quote(name, safe="")] if name else []), *([sub] if sub else [])]
        return "/".join(parts)

    def __str__(self) -> str:
        """Return the resource's name."""
        return self.resource


PODS: Final = Kind("", "v1", "pods", True, Pod, "Pod")
NODES: Final = Kind("", "v1", "nodes", False, Node, "Node")
EVENTS: Final = Kind("", "v1", "events", True, Event, "Event", whole=True)
NAMESPACES: Final = Kind("", "v1", "namespaces", False, Namespace, "Namespace")
SERVICE_ACCOUNTS: Final = Kind("", "v1", "serviceaccounts", True, ServiceAccount, "ServiceAccount")
CONFIG_MAPS: Final = Kind("", "v1", "configmaps", True, ConfigMap, "ConfigMap", whole=True)
LEASES: Final = Kind("coordination.k8s.io", "v1", "leases", True, Lease, "Lease", whole=True)
CRDS: Final = Kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    False,
    CustomResourceDefinition,
    "CustomResourceDefinition",
)
RESOURCE_SLICES: Final = Kind(
    "resource.k8s.io", "v1", "resourceslices", False, ResourceSlice, "ResourceSlice"
)

RESOURCE_CLAIMS: Final = Kind.of(
    "resource.k8s.io", "v1", "resourceclaims", namespaced=True, name="ResourceClaim"
)

KINDS: Final[dict[str, Kind[Object]]] = {
    kind.resource: kind  # type: ignore[misc]  # Kind is read-only, so a Kind[Pod] is a Kind[Object]
    for kind in (
        PODS,
        NODES,
        EVENTS,
        NAMESPACES,
        SERVICE_ACCOUNTS,
        CONFIG_MAPS,
        LEASES,
        CRDS,
        RESOURCE_SLICES,
        RESOURCE_CLAIMS,
    )
}
"""The kinds that every server has, by the name in roles and error messages."""
