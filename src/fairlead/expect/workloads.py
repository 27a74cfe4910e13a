"""Workloads from files: manifests as they are, or the short form."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead import keys
from fairlead.catalog import Catalog
from fairlead.errors import ManifestError
from fairlead.estimate.knowledge import Knowledge
from fairlead.expect.files import NO_KNOWLEDGE, ModelFileEstimator
from fairlead.inventory import Accelerator
from fairlead.manifest.files import short_workload, text
from fairlead.manifest.files.collect import collect, is_kubernetes
from fairlead.manifest.files.short import CheckedMapping
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.manifest.pod.controllers import pending_requests
from fairlead.manifest.pod.gangs import UNSTATED
from fairlead.manifest.pod.request import ReadContext, memory_by_model
from fairlead.manifest.types.kubernetes import Pod
from fairlead.placement import NodeState
from fairlead.request import Gang, Request, problems
from fairlead.workload import ModelFile

_HINT: Final = "see: fairlead docs schedule"


@dataclass(frozen=True, slots=True)
class _WorkloadPod:
    """A request in the making: where it was found, and the model that it runs."""

    where: str
    request: Request
    model: ModelFile | None = None


def read_workloads(
    paths: Sequence[str],
    cluster: Snapshot,
    catalog: Catalog,
    knowledge: Knowledge = NO_KNOWLEDGE,
    here: tuple[Accelerator, ...] = (),
) -> list[Request]:
    """Return what waits for a place in some files, with what is expected of models on this cluster.

    `here` are the accelerators of this machine, where it is one of the nodes.
    """
    foresight = ModelFileEstimator.of(cluster.nodes, catalog, knowledge, here)
    documents = [(path, *each) for path in paths for each in text.read(path)]
    formal = [(where, value) for _, where, value in documents if is_kubernetes(value)]
    context = ReadContext(catalog, collect(formal), memory_by_model(cluster.nodes))
    files = {where: path for path, where, _ in documents}
    asked = [*_manifest_pods(context, cluster.nodes, files)]
    for path, where, value in documents:
        if not is_kubernetes(value):
            asked += _short_workloads(where, path, value, catalog)
    if not asked:
        raise ManifestError(f"{', '.join(paths)}: no workloads in it", _HINT)
    found = [_with_expectations(each, foresight) for each in _with_gang_sizes(asked)]
    _check_requests(found, cluster)
    return [each.request for each in found]


def _with_expectations(asked: _WorkloadPod, foresight: ModelFileEstimator) -> _WorkloadPod:
    if asked.model is None:
        return asked
    return replace(asked, request=foresight.with_expectations(asked.where, asked.request, asked.model))


def _manifest_pods(
    context: ReadContext, nodes: Sequence[NodeState], files: Mapping[str, str]
) -> Iterable[_WorkloadPod]:
    for where, pod, request in pending_requests(context, nodes):
        path = next((file for start, file in files.items() if where.startswith(start)), "")
        yield _WorkloadPod(where, request, _model(pod, path))


def _model(pod: Pod, path: str) -> ModelFile | None:
    notes = pod.metadata.annotations
    named = notes.get(keys.MODEL, "").strip()
    if not named:
        return None
    shapes = tuple(part.strip() for part in notes.get(keys.SHAPES, "").split(";") if part.strip())
    return ModelFile.beside(path, named, shapes, notes.get(keys.PRECISION, "").strip())


def _short_workloads(where: str, path: str, value: Any, catalog: Catalog) -> Iterable[_WorkloadPod]:
    listed = value.get("workloads") if isinstance(value, dict) and "workloads" in value else None
    if listed is None and isinstance(value, dict) and {"name", "model"} & set(value):
        listed = [value]
    elif isinstance(value, dict) and "workloads" in value:
        CheckedMapping.of(where, value, ("workloads",))
    if not isinstance(listed, list):
        raise ManifestError(f"{where}: neither manifests nor workloads: of the short form", _HINT)
    for at, item in enumerate(listed):
        table = CheckedMapping.of(f"{where}: workloads[{at}]", item, short_workload.KEYS)
        for place, request, model in short_workload.read_workload(table, path, catalog):
            yield _WorkloadPod(f"{place} ({request.name})", request, model)


def _with_gang_sizes(asked: Sequence[_WorkloadPod]) -> list[_WorkloadPod]:
    """Give gangs without a stated size the number of their pods, over all files."""
    counts: dict[str, int] = {}
    for each in asked:
        if each.request.gang is not None:
            counts[each.request.gang.name] = counts.get(each.request.gang.name, 0) + 1
    return [_with_size(each, counts) for each in asked]


def _with_size(asked: _WorkloadPod, counts: Mapping[str, int]) -> _WorkloadPod:
    gang = asked.request.gang
    if gang is None or gang.size != UNSTATED:
        return asked
    return replace(asked, request=replace(asked.request, gang=Gang(gang.name, counts[gang.name])))


def _check_requests(asked: Sequence[_WorkloadPod], cluster: Snapshot) -> None:
    """Refuse names that are there twice, and figures that are nonsense."""
    seen = {placement.request.id: "the cluster" for placement in cluster.placements}
    for each in asked:
        if each.request.id in seen:
            raise ManifestError(
                f"{each.where}: {each.request.id} is there twice, first in {seen[each.request.id]}"
            )
        seen[each.request.id] = each.where
        for problem in problems(each.request):
            raise ManifestError(f"{each.where}: {problem}", "correct the figure")
