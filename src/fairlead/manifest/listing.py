"""The objects of a live cluster: only the kinds and fields that decide a placement."""

from typing import Any, Final

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import Kind
from fairlead.errors import AccessError, MissingApiError
from fairlead.manifest.files.collect import FoundObject, FoundObjects
from fairlead.manifest.types import dra, kubernetes, live
from fairlead.manifest.types.policy import BUDGETS
from fairlead.manifest.types.quota import QUOTAS
from fairlead.manifest.types.storage import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from fairlead.modelprofiles.types import MODEL_PROFILES

NODES: Final = Kind("", "v1", "nodes", False, kubernetes.Node, "Node")
PODS: Final = Kind("", "v1", "pods", True, live.LivePod, "Pod")
CLAIMS: Final = Kind("resource.k8s.io", "v1", "resourceclaims", True, live.LiveClaim, "ResourceClaim")
SLICES: Final = Kind("resource.k8s.io", "v1", "resourceslices", False, dra.Slice, "ResourceSlice")
PRIORITY_CLASSES: Final = Kind(
    "scheduling.k8s.io", "v1", "priorityclasses", False, kubernetes.PriorityClass, "PriorityClass"
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
        dra.ResourceClaimTemplate,
        "ResourceClaimTemplate",
    ),
    Kind("resource.k8s.io", "v1", "deviceclasses", False, dra.DeviceClass, "DeviceClass"),
    Kind("scheduling.k8s.io", "v1beta1", "podgroups", True, kubernetes.PodGroup, "PodGroup"),
    Kind("scheduling.k8s.io", "v1beta1", "workloads", True, kubernetes.Workload, "Workload"),
    MODEL_PROFILES,
)
"""Kinds that a cluster need not serve: an old cluster has no claims, most have no pod groups."""


STORAGE: Final[tuple[Kind[Any], ...]] = (STORAGE_CLASSES, VOLUMES, VOLUME_CLAIMS)
"""Kinds that decide where a pod's volumes can be reached."""
_MAY_BE_FORBIDDEN: Final[tuple[Kind[Any], ...]] = (*STORAGE, QUOTAS, BUDGETS)
"""Kinds that many users may not list; the cluster is then read as if it had no such objects."""


async def list_objects(cluster: ClusterClient) -> FoundObjects:
    """Return the objects of a cluster of the kinds that decide a placement."""
    entries: list[FoundObject] = []
    unlisted: dict[str, str] = {}
    kinds: tuple[Kind[Any], ...] = (NODES, PODS, *OPTIONAL, *_MAY_BE_FORBIDDEN)
    for kind in kinds:
        try:
            entries += await _list_kind(cluster, kind)
        except MissingApiError:
            if kind in (NODES, PODS):
                raise
        except AccessError as error:
            if kind not in _MAY_BE_FORBIDDEN:
                raise
            unlisted[kind.name] = str(error)
    return FoundObjects.of(entries, unlisted)


async def _list_kind(cluster: ClusterClient, kind: Kind[Any]) -> list[FoundObject]:
    listing = await cluster.list(kind)
    return [FoundObject(_where(kind, item), kind.name, item) for item in listing.items]


def _where(kind: Kind[Any], item: Any) -> str:
    return f"{kind.name.lower()} {'/'.join(filter(None, item.key))}"
