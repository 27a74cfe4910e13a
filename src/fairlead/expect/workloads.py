"""Workloads from files: Kubernetes manifests, or the short form."""

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
    """A request with its place in the files, and the model that it runs."""

    where: str
    request: Request
    model: ModelFile | None = None


def read_workloads(
    paths: Sequence[str],
    cluster: Snapshot,
    catalog: Catalog,
    knowledge: Knowledge = NO_KNOWLEDGE,
    local_accelerators: tuple[Accelerator, ...] = (),
) -> list[Request]:
    """Return the pending pods of some files, with the estimates for their models on this cluster.

    `local_accelerators` are the accelerators of this machine, where it is one of the nodes.
    """
    estimator = ModelFileEstimator.of(cluster.nodes, catalog, knowledge, local_accelerators)
    documents = [(path, *document) for path in paths for document in text.read(path)]
    manifests = [(where, value) for _, where, value in documents if is_kubernetes(value)]
    context = ReadContext(catalog, collect(manifests), memory_by_model(cluster.nodes))
    files = {where: path for path, where, _ in documents}
    pods = [*_manifest_pods(context, cluster.nodes, files)]
    for path, where, value in documents:
        if not is_kubernetes(value):
            pods += _short_workloads(where, path, value, catalog)
    if not pods:
        raise ManifestError(f"{', '.join(paths)}: no workloads in it", _HINT)
    estimated = [_with_expectations(pod, estimator) for pod in _with_gang_sizes(pods)]
    _check_requests(estimated, cluster)
    return [pod.request for pod in estimated]


def _with_expectations(pod: _WorkloadPod, estimator: ModelFileEstimator) -> _WorkloadPod:
    if pod.model is None:
        return pod
    return replace(pod, request=estimator.with_expectations(pod.where, pod.request, pod.model))


def _manifest_pods(
    context: ReadContext, nodes: Sequence[NodeState], files: Mapping[str, str]
) -> Iterable[_WorkloadPod]:
    for where, pod, request in pending_requests(context, nodes):
        path = next((file for start, file in files.items() if where.startswith(start)), "")
        yield _WorkloadPod(where, request, _model(pod, path))


def _model(pod: Pod, path: str) -> ModelFile | None:
    annotations = pod.metadata.annotations
    name = annotations.get(keys.MODEL, "").strip()
    if not name:
        return None
    shapes = tuple(part.strip() for part in annotations.get(keys.SHAPES, "").split(";") if part.strip())
    precision, training = (annotations.get(key, "").strip() for key in (keys.PRECISION, keys.TRAINING))
    return ModelFile.relative_to(path, name, shapes, precision, training)


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


def _with_gang_sizes(pods: Sequence[_WorkloadPod]) -> list[_WorkloadPod]:
    """Set the size of gangs without a stated size to the number of their pods, over all files."""
    counts: dict[str, int] = {}
    for pod in pods:
        if pod.request.gang is not None:
            counts[pod.request.gang.name] = counts.get(pod.request.gang.name, 0) + 1
    return [_with_size(pod, counts) for pod in pods]


def _with_size(pod: _WorkloadPod, counts: Mapping[str, int]) -> _WorkloadPod:
    gang = pod.request.gang
    if gang is None or gang.size != UNSTATED:
        return pod
    return replace(pod, request=replace(pod.request, gang=Gang(gang.name, counts[gang.name])))


def _check_requests(pods: Sequence[_WorkloadPod], cluster: Snapshot) -> None:
    """Reject duplicate names, and impossible figures."""
    seen = {placement.request.id: "the cluster" for placement in cluster.placements}
    for pod in pods:
        if pod.request.id in seen:
            raise ManifestError(
                f"{pod.where}: {pod.request.id} is defined twice, first in {seen[pod.request.id]}"
            )
        seen[pod.request.id] = pod.where
        for problem in problems(pod.request):
            raise ManifestError(f"{pod.where}: {problem}", "correct the figure")
