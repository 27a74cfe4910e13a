"""A cluster from files: a snapshot, manifests as kubectl prints them, or the short form."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from fairlead import keys
from fairlead.catalog import Catalog
from fairlead.errors import ManifestError
from fairlead.manifest import short, shortpod, snapshot, text
from fairlead.manifest.collect import Objects, collect, is_kubernetes
from fairlead.manifest.controllers import Asked, requests
from fairlead.manifest.deviceshapes import Slice, newest
from fairlead.manifest.node import node
from fairlead.manifest.pod import Context, sizes
from fairlead.manifest.running import placements, report
from fairlead.manifest.short import Table
from fairlead.manifest.snapshot import Snapshot
from fairlead.placement import NodeState, Placement, share_of
from fairlead.request import Request

_RUNNING: Final = (*shortpod.KEYS, "node", "devices")
_HINT: Final = "see: fairlead docs schedule"


def read_cluster(paths: Sequence[str], catalog: Catalog) -> Snapshot:
    """Return the cluster that some files describe together: a snapshot, manifests, or the short form."""
    documents = [each for path in paths for each in text.read(path)]
    if not documents:
        raise ManifestError(f"{', '.join(paths)}: nothing in it", _HINT)
    if any(snapshot.is_snapshot(value) for _, value in documents):
        if len(documents) > 1:
            raise ManifestError(
                f"{documents[0][0]}: a snapshot stands alone", "name it as the only --cluster"
            )
        return snapshot.parse(documents[0][1], documents[0][0])
    if all(is_kubernetes(value) for _, value in documents):
        return of_objects(collect(documents), catalog, ", ".join(paths))
    where, value = documents[0]
    if len(documents) > 1:
        raise ManifestError(f"{where}: the short form stands alone", "put all nodes into one document")
    return _short_cluster(where, value, catalog)


def of_objects(
    objects: Objects, catalog: Catalog, name: str = "the cluster", *, complaints: list[str] | None = None
) -> Snapshot:
    """Return the cluster that objects describe: nodes, slices, claims, and pods that run or wait.

    With `complaints`, a pod that cannot be read is passed over and named there: a live cluster has many
    owners, and one of them cannot spoil the answer for all.
    """
    slices: dict[str, list[Slice]] = {}
    for each in objects.all("ResourceSlice"):
        slices.setdefault(each.body.home, []).append(each.body)
    found = objects.all("Node")
    if not found and complaints is None:
        raise ManifestError(
            f"{name}: no nodes in it", "kubectl get nodes,resourceslices,pods -A -o yaml > cluster.yaml"
        )
    nodes = [
        node(each.where, each.body, newest(slices.get(each.body.metadata.name, ())), catalog)
        for each in found
    ]
    context = Context(catalog, objects, sizes(nodes), complaints)
    reports = {state.name: report(each.body, state.devices) for each, state in zip(found, nodes, strict=True)}
    waiting = [*_foreseen(requests(_pods_alone(context), nodes), context)]
    budgets = tuple(each.body.budget() for each in objects.all("PodDisruptionBudget"))
    running = placements(context, nodes, reports)
    return Snapshot(tuple(nodes), tuple(running), tuple(waiting), budgets=budgets)


def _foreseen(asked: Iterable[Asked], context: Context) -> Iterator[Request]:
    """Yield what waits, with what the cluster's profiles say of the models that pods name."""
    models = None
    for where, pod, request in asked:
        if context.complaints is None or not pod.metadata.annotations.get(keys.MODEL, "").strip():
            yield request  # a file may have models beside it, not profiles
            continue
        try:
            if models is None:
                from fairlead.expect.profiles import Models  # noqa: PLC0415 - numpy, only for predictions

                profiles = [each.body for each in context.objects.all("ModelProfile")]
                models = Models.of(profiles, context.catalog)
            yield models.expecting(where, pod, request, context.sizes)
        except ManifestError as error:
            context.complaints.append(str(error))
        except ModuleNotFoundError as error:
            context.complaints.append(f"predicting needs {error.name}")


def _pods_alone(context: Context) -> Context:
    """Return the context without controllers: in a cluster their pods are there already."""
    return replace(context, objects=context.objects.only("Pod"))


def _short_cluster(where: str, value: Any, catalog: Catalog) -> Snapshot:
    if not isinstance(value, dict) or "nodes" not in value:
        raise ManifestError(f"{where}: neither a snapshot, nor manifests, nor nodes of the short form", _HINT)
    table = Table.of(where, value, short.CLUSTER_KEYS)
    nodes = short.nodes(f"{where}: nodes", value["nodes"], catalog)
    running = tuple(
        _running(Table.of(f"{where}: running[{at}]", each, _RUNNING), where, nodes, catalog)
        for at, each in enumerate(table.items("running"))
    )
    return Snapshot(tuple(nodes), running)


def _running(table: Table, file: str, nodes: Sequence[NodeState], catalog: Catalog) -> Placement:
    request, _ = shortpod.single(table, file, catalog)
    snapshot.sound(request, table.where)
    name = table.text("node")
    host = next((each for each in nodes if each.name == name), None)
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
