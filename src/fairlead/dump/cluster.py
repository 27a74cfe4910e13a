"""Read what a fault report needs of a cluster; a part that cannot be read is named, and stops no other."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.cache.listed_cluster import ListedCluster
from fairlead.catalog import Catalog
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import EVENTS, LEASES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind
from fairlead.dump.archive import DumpBuilder
from fairlead.dump.logs import read_logs
from fairlead.dump.scrub import environment_values
from fairlead.errors import FairleadError
from fairlead.keys import DOMAIN
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.manifest.listing import list_objects
from fairlead.whatif.pod_program import NoAnswer
from fairlead.whatif.program_pages import SELECTOR, program_pod, read_metrics

_KINDS: Final[tuple[Kind[Any], ...]] = (
    *(NODES, LEASES, RESOURCE_SLICES, RESOURCE_CLAIMS),
    *(Kind.of(DOMAIN, "v1alpha1", plural, namespaced=True) for plural in ("pipelines", "augmentations")),
)
MOST_PENDING: Final = 500
"""Pending pods whose objects and events are kept; the snapshot has all of them."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What a dump of a cluster holds."""

    log_lines: int = 200
    """The last lines of each container; 0: no logs."""


async def dump_cluster(
    client: Client, catalog: Catalog, source: str, options: DumpOptions, builder: DumpBuilder
) -> None:
    """Add everything about a cluster; the builder's secrets are completed first."""
    ours = await _list(client, PODS, builder, labels=SELECTOR) or []
    pending = (await _list(client, PODS, builder, fields="spec.nodeName=") or [])[:MOST_PENDING]
    snapshot = await _snapshot(client, catalog, source, builder)
    pods = list({each["metadata"]["uid"]: each for each in (*ours, *pending)}.values())
    builder.scrubber.learn(_secrets_of(pods, snapshot))
    if snapshot is not None:
        builder.add_snapshot(snapshot.to_json())
    builder.add("objects/pods.json", pods)
    await _add_objects(client, builder)
    await _add_events(client, builder, pods)
    await _add_versions(client, builder, ours)
    await _add_metrics(client, builder, ours)
    if options.log_lines:
        await read_logs(client, ours, options.log_lines, builder)


async def attempt(builder: DumpBuilder, name: str, read: Callable[[], Awaitable[Any]]) -> None:
    """Add the document that `read` returns, or that it could not be read."""
    try:
        builder.add(name, await read())
    except FairleadError as error:
        builder.miss(name, error)


async def _list(
    client: Client,
    kind: Kind[Any],
    builder: DumpBuilder,
    namespace: str | None = None,
    *,
    labels: str | None = None,
    fields: str | None = None,
) -> list[Json] | None:
    try:
        listed = await client.list(kind.raw(), namespace, labels=labels, fields=fields)
    except FairleadError as error:
        builder.miss(kind.resource, error)
        return None
    return [each.document() for each in listed.items]


async def _snapshot(client: Client, catalog: Catalog, source: str, builder: DumpBuilder) -> Snapshot | None:
    try:
        listed = await list_objects(client)
    except FairleadError as error:
        builder.miss("snapshot", error)
        return None
    cluster = ListedCluster.of(listed, catalog)
    for complaint in cluster.read_errors:
        builder.miss("snapshot", complaint)
    return replace(cluster.snapshot, taken=builder.taken, source=source)


def _secrets_of(pods: Iterable[Json], snapshot: Snapshot | None) -> list[str]:
    """Return the values of environment variables; the names of nodes and namespaces are no secrets."""
    known = {str(pod["metadata"].get("namespace")) for pod in pods}
    known |= {str(pod["metadata"].get("name")) for pod in pods}
    if snapshot is not None:
        known |= {node.name for node in snapshot.nodes}
        known |= {each.request.namespace for each in snapshot.placements}
    return [value for pod in pods for value in environment_values(pod) if value not in known]


async def _add_objects(client: Client, builder: DumpBuilder) -> None:
    for kind in _KINDS:
        listed = await _list(client, kind, builder)
        if listed is not None:
            kept = [each for each in listed if kind is not LEASES or _is_own_lease(each)]
            builder.add(f"objects/{kind.plural}.json", kept)


def _is_own_lease(lease: Mapping[str, Any]) -> bool:
    return str(lease["metadata"]["name"]).startswith("fairlead")


async def _add_events(client: Client, builder: DumpBuilder, pods: Sequence[Json]) -> None:
    """Add the events of the pods' namespaces that are about these pods or objects of ours."""
    uids = {each["metadata"]["uid"] for each in pods}
    kept: list[Json] = []
    for namespace in sorted({str(each["metadata"]["namespace"]) for each in pods}):
        for event in await _list(client, EVENTS, builder, namespace=namespace) or ():
            about = event.get("regarding") or event.get("involvedObject") or {}
            if about.get("uid") in uids or DOMAIN in str(about.get("apiVersion", "")):
                kept.append(event)
    builder.add("objects/events.json", kept)


async def _add_versions(client: Client, builder: DumpBuilder, ours: Sequence[Json]) -> None:
    async def read() -> Json:
        server = await client.version()
        return {"kubernetes": f"{server.major}.{server.minor}", "programs": [_program(each) for each in ours]}

    await attempt(builder, "versions.json", read)


def _program(pod: Mapping[str, Any]) -> Json:
    meta, status = pod["metadata"], pod.get("status", {})
    labels = meta.get("labels", {})
    return {
        "pod": f"{meta['namespace']}/{meta['name']}",
        "component": labels.get("app.kubernetes.io/component"),
        "version": labels.get("app.kubernetes.io/version"),
        "images": sorted({each.get("imageID", "") for each in status.get("containerStatuses", ())}),
        "node": pod.get("spec", {}).get("nodeName"),
        "phase": status.get("phase"),
        "restarts": sum(each.get("restartCount", 0) for each in status.get("containerStatuses", ())),
    }


async def _add_metrics(client: Client, builder: DumpBuilder, ours: Iterable[Json]) -> None:
    pods = [found for each in ours if (found := program_pod(each)) is not None]
    for pod, page in (await read_metrics(client, pods)).items():
        name = f"metrics/{pod.namespace}/{pod.name}.txt"
        if isinstance(page, NoAnswer):
            builder.miss(name, page.reason)
        else:
            builder.add_text(name, page.decode(errors="replace"))
