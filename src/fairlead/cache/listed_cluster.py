"""A cluster at one moment: every object of a list goes through the scheduler's own cache, once."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.delta import PendingPod
from fairlead.cache.origin import ObjectOrigin
from fairlead.cache.translator import UnreadablePod
from fairlead.catalog import Catalog
from fairlead.cluster.meta import replace as changed
from fairlead.cluster.objects import Consumer
from fairlead.cluster.watch.changes import Key, ObjectChange
from fairlead.errors import ManifestError
from fairlead.manifest.files.collect import FoundObject, FoundObjects
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.manifest.pod.claim_names import claims_used
from fairlead.manifest.types.kubernetes import Controller, CronJob
from fairlead.manifest.types.live import LiveClaim, LivePod
from fairlead.placement import NodeState, Placement
from fairlead.request import Request

_STORAGE: Final = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """The cluster that a list of objects describes."""

    cache: SchedulerCache
    snapshot: Snapshot
    unreadable: tuple[UnreadablePod, ...] = ()
    """Pods that cannot be read, in the order of the list; bound ones are counted from their spec alone."""
    read_errors: tuple[ManifestError, ...] = ()
    """The errors of nodes and pods that cannot be read, in the order of the list."""

    @classmethod
    def of(cls, objects: FoundObjects, catalog: Catalog) -> "ListedCluster":
        """Return the cluster of an API server; objects that cannot be read are skipped, and named."""
        return _list_cluster(objects.entries, objects, catalog, authored=False)

    @classmethod
    def of_files(cls, objects: FoundObjects, catalog: Catalog) -> "ListedCluster":
        """Return the cluster of manifests; the first object that cannot be read is an error."""
        listed = _list_cluster(_with_server_fields(objects), objects, catalog, authored=True)
        for error in listed.read_errors:
            raise error
        return replace(listed, snapshot=_without_placeholder_uids(listed.snapshot))


def _list_cluster(
    items: Iterable[FoundObject], objects: FoundObjects, catalog: Catalog, *, authored: bool
) -> ListedCluster:
    places = {(entry.kind, *entry.body.key): entry.where for entry in objects.entries}
    # Files often hold no volumes at all, though their pods name some.
    unlisted = {kind: why for kind, why in objects.unlisted.items() if kind in _STORAGE}
    storage = any(map(objects.all, _STORAGE)) if authored else not unlisted
    cache = SchedulerCache(catalog, None, ObjectOrigin(places, authored, storage))
    pods: list[str] = []
    for item in items:
        if not isinstance(item.body, Controller | CronJob):  # in a cluster their pods already exist
            cache.on_event(ObjectChange(None, item.body))
        if isinstance(item.body, LivePod):
            pods.append(item.body.metadata.uid)
    pending: dict[str, PendingPod] = {each.id: each for each in cache.sync().pending}
    names = [each.body.metadata.name for each in objects.all("Node")]
    nodes = [state for name in names if (state := cache.cluster.node(name)) is not None]
    read = [pending.get(uid) or cache.unreadable.get(uid) for uid in pods]
    unreadable = tuple(each for each in read if isinstance(each, UnreadablePod))
    errors = [ManifestError(f"volumes are not checked: {why}") for why in unlisted.values()][:1]
    errors += [cache.read_errors[name] for name in names if name in cache.read_errors]
    errors += [ManifestError(each.problem, each.hint) for each in unreadable]
    snapshot = Snapshot(
        tuple(nodes),
        tuple(_placements(cache, nodes)),
        tuple(each for each in read if isinstance(each, Request)),
        budgets=tuple(cache.disruptions.budgets),
    )
    return ListedCluster(cache, snapshot, unreadable, tuple(errors))


def _placements(cache: SchedulerCache, nodes: Iterable[NodeState]) -> Iterator[Placement]:
    for node in nodes:
        yield from cache.cluster.placed_on(cache.cluster.row(node.name))


def _with_server_fields(objects: FoundObjects) -> Iterator[FoundObject]:
    """Yield the objects of files with the fields that an API server adds: uids, and the users of claims."""
    seen: dict[str, str] = {}
    users: dict[Key, set[str]] = {}
    for each in objects.all("Pod"):
        pod: LivePod = each.body
        uid = pod.metadata.uid or _placeholder_uid(*pod.key)
        if uid in seen:
            raise ManifestError(f"{each.where}: metadata.uid: {uid} is there twice, first in {seen[uid]}")
        seen[uid] = each.where
        for key in claims_used(pod) if pod.spec.node_name and not pod.ended else ():
            users.setdefault(key, set()).add(uid)
    for entry in objects.entries:
        body = entry.body
        if isinstance(body, LivePod) and not body.metadata.uid:
            body = changed(body, metadata=changed(body.metadata, uid=_placeholder_uid(*body.key)))
        elif isinstance(body, LiveClaim) and body.key in users:
            body = _used_by(body, users[body.key])
        yield replace(entry, body=body)


def _used_by(claim: LiveClaim, users: Iterable[str]) -> LiveClaim:
    consumers = tuple(Consumer(resource="pods", uid=uid) for uid in sorted({*claim.users, *users}))
    return changed(claim, status=changed(claim.status, reserved_for=consumers))


def _placeholder_uid(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _without_placeholder_uids(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without the uids that no file holds."""

    def plain(request: Request) -> Request:
        placeholder = request.uid == _placeholder_uid(request.namespace, request.name)
        return replace(request, uid="") if placeholder else request

    placements = tuple(
        replace(placement, request=plain(placement.request)) for placement in snapshot.placements
    )
    return replace(snapshot, placements=placements, pending=tuple(map(plain, snapshot.pending)))
