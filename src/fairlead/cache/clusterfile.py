"""Read a cluster from files: a snapshot, manifests as kubectl prints them, or the short form."""

from collections.abc import Sequence
from typing import Any, Final

from fairlead.cache.listed_cluster import ListedCluster
from fairlead.catalog import Catalog
from fairlead.errors import ManifestError
from fairlead.manifest.files import short, short_workload, snapshot, text
from fairlead.manifest.files.collect import collect, is_kubernetes
from fairlead.manifest.files.short import CheckedMapping
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import NodeState, Placement, share_of

_RUNNING: Final = (*short_workload.KEYS, "node", "devices")
_HINT: Final = "see: fairlead docs schedule"


def read_cluster(paths: Sequence[str], catalog: Catalog) -> Snapshot:
    """Return the cluster that some files describe together: a snapshot, manifests, or the short form."""
    documents = [document for path in paths for document in text.read(path)]
    if not documents:
        raise ManifestError(f"{', '.join(paths)}: nothing in it", _HINT)
    if any(snapshot.is_snapshot(value) for _, value in documents):
        if len(documents) > 1:
            raise ManifestError(
                f"{documents[0][0]}: a snapshot stands alone", "name it as the only --cluster"
            )
        return snapshot.parse(documents[0][1], documents[0][0])
    if all(is_kubernetes(value) for _, value in documents):
        objects = collect(documents)
        if not objects.all("Node"):
            hint = "kubectl get nodes,resourceslices,pods -A -o yaml > cluster.yaml"
            raise ManifestError(f"{', '.join(paths)}: no nodes in it", hint)
        return ListedCluster.of_files(objects, catalog).snapshot
    where, value = documents[0]
    if len(documents) > 1:
        raise ManifestError(f"{where}: the short form stands alone", "put all nodes into one document")
    return _short_cluster(where, value, catalog)


def _short_cluster(where: str, value: Any, catalog: Catalog) -> Snapshot:
    if not isinstance(value, dict) or "nodes" not in value:
        raise ManifestError(f"{where}: neither a snapshot, nor manifests, nor nodes of the short form", _HINT)
    table = CheckedMapping.of(where, value, short.CLUSTER_KEYS)
    nodes = short.read_nodes(f"{where}: nodes", value["nodes"], catalog)
    running = tuple(
        _running(CheckedMapping.of(f"{where}: running[{at}]", each, _RUNNING), where, nodes, catalog)
        for at, each in enumerate(table.items("running"))
    )
    return Snapshot(tuple(nodes), running)


def _running(table: CheckedMapping, file: str, nodes: Sequence[NodeState], catalog: Catalog) -> Placement:
    request, _ = short_workload.read_pod(table, file, catalog)
    snapshot.check_request(request, table.where)
    name = table.text("node")
    host = next((node for node in nodes if node.name == name), None)
    if host is None:
        raise ManifestError(f"{table.at('node')}: there is no node {name!r}", "name one of the nodes")
    ids = {device.id: device for device in host.devices}
    named = table.texts("devices")
    for device in named:
        if device not in ids:
            raise ManifestError(
                f"{table.at('devices')}: {name} has no {device!r}", f"it has {', '.join(ids) or 'none'}"
            )
    if len(named) != request.demand.count:
        raise ManifestError(
            f"{table.at('devices')}: {len(named)} named, {request.demand.count} asked for",
            "name each that it is on",
        )
    return Placement(request, name, tuple(share_of(request, ids[device]) for device in named))
