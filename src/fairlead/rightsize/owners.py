"""Owners of pods in a cluster: read, changed after a dry run of the server, and restored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cluster.client import FIELD_MANAGER, Client
from fairlead.cluster.http import codec
from fairlead.cluster.kinds import Kind
from fairlead.cluster.meta import Raw
from fairlead.rightsize.change import NotChanged
from fairlead.rightsize.workload import WorkloadKey

OWNERS: Final[Mapping[str, Kind[Raw]]] = {
    "Deployment": Kind.of("apps", "v1", "deployments", namespaced=True, name="Deployment"),
    "StatefulSet": Kind.of("apps", "v1", "statefulsets", namespaced=True, name="StatefulSet"),
    "DaemonSet": Kind.of("apps", "v1", "daemonsets", namespaced=True, name="DaemonSet"),
    "ReplicaSet": Kind.of("apps", "v1", "replicasets", namespaced=True, name="ReplicaSet"),
    "CronJob": Kind.of("batch", "v1", "cronjobs", namespaced=True, name="CronJob"),
}
JOBS: Final = Kind.of("batch", "v1", "jobs", namespaced=True, name="Job")
_STRATEGIC: Final = "application/strategic-merge-patch+json"
PatchMaker = Callable[[Mapping[str, Any]], "dict[str, Any] | NotChanged"]


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """A change of an owner that the server has accepted in a dry run."""

    workload: WorkloadKey
    patch: Mapping[str, Any]
    """With the resource version of `before`: the write fails where the owner has changed since."""
    before: Mapping[str, Any]
    after: Mapping[str, Any]


async def try_change(client: Client, workload: WorkloadKey, make: PatchMaker) -> OwnerChange | NotChanged:
    """Return the owner before and after a change, as the server would store it; nothing is stored."""
    kind = OWNERS[workload.kind]
    before = (await client.get(kind, workload.name, workload.namespace)).document()
    patch = make(before)
    if isinstance(patch, NotChanged):
        return patch
    answer = await client.request(
        "PATCH",
        kind.path(workload.namespace, workload.name),
        query={"dryRun": "All", "fieldManager": FIELD_MANAGER},
        body=codec.encode_plain(patch),
        content_type=_STRATEGIC,
    )
    return OwnerChange(workload, patch, before, codec.decode(kind, answer).document())


async def make_change(client: Client, change: OwnerChange) -> None:
    """Store a change; ConflictError where the owner has changed since the dry run."""
    workload = change.workload
    await client.patch(
        OWNERS[workload.kind], workload.name, change.patch, workload.namespace, patch_type="strategic"
    )
