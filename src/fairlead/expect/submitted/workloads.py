"""The workloads of a manifest stream, each with its pod and the place of its template. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead import keys
from fairlead.cluster.http import codec
from fairlead.cluster.objects import ConfigMap
from fairlead.errors import ManifestError
from fairlead.expect.submitted.contents import Key
from fairlead.manifest.files.collect import is_kubernetes
from fairlead.manifest.pod.workload_key import uses_accelerator
from fairlead.manifest.types.program import ProgramPod

AUTO: Final = "auto"
Path = tuple[str | int, ...]
_TEMPLATES: Final[Mapping[str, Path]] = {
    "Pod": (),
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template"),
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""By kind, where the template of its pods is."""
_DEEPEST: Final = 4
_BY_ANNOTATION: Final = (
    keys.MODEL,
    keys.MODELS,
    keys.COUNT,
    keys.COMPUTE,
    keys.KAI_FRACTION,
    keys.KAI_MEMORY,
)
"""Annotations by which a pod requests an accelerator."""


@dataclass(frozen=True, slots=True)
class SubmittedWorkload:
    """A workload as it is submitted."""

    where: str
    """For people: `Deployment default/web`."""
    document: int
    """The number of its document in the stream."""
    template: Path
    """Where the template of its pods is in that document."""
    pod: ProgramPod

    @property
    def model(self) -> str:
        """The model that it already names."""
        return self.pod.metadata.annotations.get(keys.MODEL, "").strip()

    @property
    def wants_analysis(self) -> bool:
        """Whether its model is looked for: it requests an accelerator, or asks for the analysis."""
        annotations = self.pod.metadata.annotations
        spec = self.pod.spec
        return (
            annotations.get(keys.ANALYZE) == AUTO
            or bool(spec.resource_claims)
            or any(key in annotations for key in _BY_ANNOTATION)
            or any(map(uses_accelerator, spec.containers))
        )


def submitted(documents: list[tuple[str, Any]]) -> tuple[list[SubmittedWorkload], dict[Key, ConfigMap]]:
    """Return the workloads and the ConfigMaps of a stream; other kinds are ignored."""
    workloads: list[SubmittedWorkload] = []
    config_maps: dict[Key, ConfigMap] = {}
    for number, (where, document) in enumerate(documents):
        for path, item in _objects(where, document, ()):
            kind = str(item["kind"])
            if kind in _TEMPLATES:
                workloads.append(_workload(number, path, item))
            elif kind == "ConfigMap":
                read = _decode(f"{where}: ConfigMap", ConfigMap, item)
                config_maps[read.metadata.namespace or "default", read.metadata.name] = read
    return workloads, config_maps


def _objects(where: str, document: Any, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    if not is_kubernetes(document):
        raise ManifestError(f"{where}: not a Kubernetes object", "write apiVersion and kind")
    items = document.get("items")
    if str(document["kind"]).endswith("List") and isinstance(items, list) and len(path) < 2 * _DEEPEST:
        for at, item in enumerate(items):
            kind = {"apiVersion": document["apiVersion"], "kind": str(document["kind"]).removesuffix("List")}
            whole = {**kind, **item} if isinstance(item, dict) else item
            yield from _objects(f"{where}: items[{at}]", whole, (*path, "items", at))
    else:
        yield path, document


def _workload(number: int, path: Path, item: dict[str, Any]) -> SubmittedWorkload:
    meta = item.get("metadata") if isinstance(item.get("metadata"), dict) else {}
    assert isinstance(meta, dict), "checked above"
    name = meta.get("name") or meta.get("generateName") or "?"
    namespace = str(meta.get("namespace") or "default")
    where = f"{item['kind']} {namespace}/{name}"
    template = value_at(item, _TEMPLATES[item["kind"]])
    if not isinstance(template, dict):
        raise ManifestError(f"{where}: it has no template of pods", "see the Kubernetes reference")
    own = template.get("metadata") or {}
    if not isinstance(own, dict):
        raise ManifestError(f"{where}: metadata: not a mapping", "see the Kubernetes reference")
    document = {**template, "metadata": {**own, "name": str(name), "namespace": namespace}}
    pod = _decode(where, ProgramPod, document)
    return SubmittedWorkload(where, number, (*path, *_TEMPLATES[item["kind"]]), pod)


def value_at(document: Any, path: Iterable[str | int]) -> Any:
    """Return the value at a path of a document; None where there is none."""
    for part in path:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _decode(where: str, kind: Any, document: Any) -> Any:
    try:
        return codec.from_document(kind, document)
    except ValueError as error:
        raise ManifestError(f"{where}: {error}", "see the Kubernetes reference") from None
