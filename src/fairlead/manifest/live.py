"""A live cluster as objects: only what decides a placement is asked for, and only that is kept."""

from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Final

from fairlead.cluster.api import Cluster
from fairlead.cluster.kinds import MODEL_PROFILES, Kind
from fairlead.errors import AccessError, MissingApiError
from fairlead.manifest import deviceshapes, seen, shapes
from fairlead.manifest.collect import Found, Objects
from fairlead.manifest.policy_types import BUDGETS

NODES: Final = Kind("", "v1", "nodes", False, shapes.Node, "Node")
PODS: Final = Kind("", "v1", "pods", True, seen.Pod, "Pod")
CLAIMS: Final = Kind("resource.k8s.io", "v1", "resourceclaims", True, seen.Claim, "ResourceClaim")
OPTIONAL: Final[tuple[Kind[Any], ...]] = (
    Kind("scheduling.k8s.io", "v1", "priorityclasses", False, shapes.PriorityClass, "PriorityClass"),
    Kind("resource.k8s.io", "v1", "resourceslices", False, deviceshapes.Slice, "ResourceSlice"),
    CLAIMS,
    Kind(
        "resource.k8s.io",
        "v1",
        "resourceclaimtemplates",
        True,
        deviceshapes.ClaimTemplate,
        "ResourceClaimTemplate",
    ),
    Kind("resource.k8s.io", "v1", "deviceclasses", False, deviceshapes.DeviceClass, "DeviceClass"),
    Kind("scheduling.k8s.io", "v1beta1", "podgroups", True, shapes.PodGroup, "PodGroup"),
    Kind("scheduling.k8s.io", "v1beta1", "workloads", True, shapes.Workload, "Workload"),
    MODEL_PROFILES,
)
"""Kinds that a cluster need not serve: an old one has no claims, most have no groups."""


async def objects(cluster: Cluster) -> Objects:
    """Return what a cluster holds of the kinds that decide a placement."""
    found = [*await _listed(cluster, NODES), *await _listed(cluster, PODS)]
    for kind in OPTIONAL:
        found += await _if_served(_listed(cluster, kind))
    with suppress(AccessError):  # without them preemption is asked about as if there were none
        found += await _if_served(_listed(cluster, BUDGETS))
    return Objects.of(found)


async def _listed(cluster: Cluster, kind: Kind[Any]) -> list[Found]:
    listing = await cluster.list(kind)
    return [Found(_where(kind, item), kind.name, item) for item in listing.items]


async def _if_served(asked: Awaitable[list[Found]]) -> list[Found]:
    try:
        return await asked
    except MissingApiError:
        return []


def _where(kind: Kind[Any], item: Any) -> str:
    return f"{kind.name} {'/'.join(filter(None, item.key))}"
