"""The API resources of device slices, classes and claims, in every version of resource.k8s.io."""

from collections.abc import Mapping
from typing import Any, Final

from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Object
from fairlead.manifest.types.dra import DeviceClass, ResourceClaim, ResourceClaimTemplate, Slice

GROUP: Final = "resource.k8s.io"
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""The newest first: the order in which a server is asked for them."""
SLICE: Final = "ResourceSlice"
CLASS: Final = "DeviceClass"
CLAIM: Final = "ResourceClaim"
TEMPLATE: Final = "ResourceClaimTemplate"
KINDS: Final[Mapping[str, type[Object]]] = {
    SLICE: Slice,
    CLASS: DeviceClass,
    CLAIM: ResourceClaim,
    TEMPLATE: ResourceClaimTemplate,
}
_PLURALS: Final = {
    SLICE: "resourceslices",
    CLASS: "deviceclasses",
    CLAIM: "resourceclaims",
    TEMPLATE: "resourceclaimtemplates",
}


def resource_kind(kind: str, version: str) -> Kind[Any]:
    """Return a kind in one version of the API."""
    return Kind(GROUP, version, _PLURALS[kind], kind in (CLAIM, TEMPLATE), KINDS[kind], kind)
