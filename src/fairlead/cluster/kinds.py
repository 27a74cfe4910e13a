"""Every kind that this program knows by name, and how to name another."""

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
    """A kind of object: where the API server keeps it, and how it is read."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    namespaced: bool
    type: type[T]
    name: str = ""
    """As `kind:` says it in a manifest; what is created must say it, or this fills it in."""
    whole: bool = False
    """The type has every field of the kind, so that an update cannot erase one."""

    @staticmethod
    def of(group: str, version: str, plural: str, *, namespaced: bool, name: str = "") -> "Kind[Raw]":
        """Name a kind that is not in the table below."""
        return Kind(group, version, plural, namespaced, Raw, name, whole=True)

    def raw(self) -> "Kind[Raw]":
        """Return the same kind, read whole."""
        return Kind.of(self.group, self.version, self.plural, namespaced=self.namespaced, name=self.name)

    @property
    def api_version(self) -> str:
        """As `apiVersion:` says it in a manifest."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As roles and error messages say it: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str = "", sub: str = "") -> str:
        """Return where on the server the kind, or one object of it, is found."""
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
"""What every server has, by the name that roles and error messages use."""
