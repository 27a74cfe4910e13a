"""A live cluster as objects: only what decides a placement is asked for, and only that is kept."""

from typing import Any, Final

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import MODEL_PROFILES, Kind
from fairlead.errors import AccessError, MissingApiError
from fairlead.manifest import deviceshapes, seen, shapes
from fairlead.manifest.collect import FoundObject, FoundObjects
from fairlead.manifest.policy_types import BUDGETS
from fairlead.manifest.quotashapes import QUOTAS
from fairlead.manifest.volumeshapes import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES

NODES: Final = Kind("", "v1", "nodes", False, shapes.Node, "Node")
PODS: Final = Kind("", "v1", "pods", True, seen.LivePod, "Pod")
CLAIMS: Final = Kind("resource.k8s.io", "v1", "resourceclaims", True, seen.LiveClaim, "ResourceClaim")
SLICES: Final = Kind("resource.k8s.io", "v1", "resourceslices", False, deviceshapes.Slice, "ResourceSlice")
PRIORITY_CLASSES: Final = Kind(
    "scheduling.k8s.io", "v1", "priorityclasses", False, shapes.PriorityClass, "PriorityClass"
)
OPTIONAL: Final[tuple[Kind[Any], ...]] = (
    PRIORITY_CLASSES,
    SLICES,
    CLAIMS,
    Kind(
        "resource.k8s.io",
        "v1",
        "resourceclaimtemplates",
        True,
        deviceshapes.ResourceClaimTemplate,
        "ResourceClaimTemplate",
    ),
    Kind("resource.k8s.io", "v1", "deviceclasses", False, deviceshapes.DeviceClass, "DeviceClass"),
    Kind("scheduling.k8s.io", "v1beta1", "podgroups", True, shapes.PodGroup, "PodGroup"),
    Kind("scheduling.k8s.io", "v1beta1", "workloads", True, shapes.Workload, "Workload"),
    MODEL_PROFILES,
)
"""Kinds that a cluster need not serve: an old one has no claims, most have no groups."""


STORAGE: Final[tuple[Kind[Any], ...]] = (STORAGE_CLASSES, VOLUMES, VOLUME_CLAIMS)
"""Kinds that say where a pod's volumes are."""
_FORBIDDEN_TO_MANY: Final[tuple[Kind[Any], ...]] = (*STORAGE, QUOTAS, BUDGETS)
"""Kinds that a user may not be allowed to list; the cluster is then read as if it had none."""


async def objects(cluster: ClusterClient) -> FoundObjects:
    """Return what a cluster holds of the kinds that decide a placement."""
    found: list[FoundObject] = []
    unlisted: dict[str, str] = {}
    kinds: tuple[Kind[Any], ...] = (NODES, PODS, *OPTIONAL, *_FORBIDDEN_TO_MANY)
    for kind in kinds:
        try:
            found += await _listed(cluster, kind)
        except MissingApiError:
            if kind in (NODES, PODS):
                raise
        except AccessError as error:
            if kind not in _FORBIDDEN_TO_MANY:
                raise
            unlisted[kind.name] = str(error)
    return FoundObjects.of(found, unlisted)


async def _listed(cluster: ClusterClient, kind: Kind[Any]) -> list[FoundObject]:
    listing = await cluster.list(kind)
    return [FoundObject(_where(kind, item), kind.name, item) for item in listing.items]


def _where(kind: Kind[Any], item: Any) -> str:
    return f"{kind.name.lower()} {'/'.join(filter(None, item.key))}"
