"""The file of a pipeline as a resource, and the ConfigMap with its code. Pure."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from fairlead.errors import PipelineError
from fairlead.keys import PIPELINE_FILES
from fairlead.ownedobjects.kinds import CONFIG_MAPS, digest
from fairlead.pipeline.keys.fields import check_keys
from fairlead.pipeline.spec import HostSpec, PipelineSpec, StageSpec
from fairlead.pipelineobjects.names import LOCAL, PIPELINES, labels
from fairlead.pipelineobjects.plan_spec import PLAN
from fairlead.pipelineobjects.resource import HOST, ON, REPLICAS, SCALE
from fairlead.reconcile import Manifest

_POD: Final = ("nodeSelector", "tolerations", "resources", "accelerator", "dataClaim", "tlsSecret")
_CLUSTER: Final = (
    *("image", "imagePullPolicy", "imagePullSecrets", "schedulerName", "stateClaim", "files", "update"),
    LOCAL,
)
_TEXTS: Final = ("timeout", "max_age", "age", "up_after", "down_after")
Json = dict[str, Any]


def resource_of(
    spec: PipelineSpec,
    document: Manifest,
    name: str,
    namespace: str,
    files: Mapping[str, bytes],
    plan: Manifest | None = None,
) -> Json:
    """Return the resource of a file; `document` is its content, `files` its code by path.

    PipelineError where the file says what a cluster cannot do.
    """
    check_keys(spec.cluster, _CLUSTER, f"{spec.path}: cluster", PipelineError)
    if files and "files" in spec.cluster:
        what = f"{spec.path}: cluster.files is stated, and stages need {min(files)} of this folder"
        raise PipelineError(what, "leave out cluster.files, or deploy with --no-files")
    stages = zip(spec.stages, document["stages"], strict=True)
    body: Json = {"stages": [_stage(spec, stage, entry) for stage, entry in stages]}
    if "edges" in document:
        body["edges"] = [_texts(edge) for edge in document["edges"]]
    if not spec.fuse:
        body["fuse"] = False
    if spec.hosts:
        body["hosts"] = [_host(spec, host) for host in spec.hosts]
    body |= {**spec.cluster, "suspend": False} | ({PLAN: dict(plan)} if plan is not None else {})
    if files:
        items = [{"key": _key(path), "path": path} for path in sorted(files)]
        body["files"] = {"configMap": files_name(name, files), "items": items}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": PIPELINES.api_version, "kind": PIPELINES.kind, "metadata": meta, "spec": body}


def files_name(name: str, files: Mapping[str, bytes]) -> str:
    """Return the name of the ConfigMap with files; other content has another name."""
    return f"{name}-files-{digest({path: b64encode(data).decode() for path, data in files.items()}, 8)}"


def files_map(name: str, namespace: str, files: Mapping[str, bytes]) -> Json:
    """Return the ConfigMap with files."""
    texts, others = {}, {}
    for path, content in files.items():
        try:
            texts[_key(path)] = content.decode()
        except UnicodeDecodeError:
            others[_key(path)] = b64encode(content).decode()
    meta = {"name": files_name(name, files), "namespace": namespace}
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {**meta, "labels": labels(name) | {PIPELINE_FILES: name}},
        "immutable": True,
        "data": texts,
        "binaryData": others,
    }


def _key(path: str) -> str:
    """Return the key of a path: a key has no slash."""
    return path.replace("/", "..")


def _stage(spec: PipelineSpec, stage: StageSpec, entry: Mapping[str, Any]) -> Json:
    body = {key: value for key, value in _texts(entry).items() if key != ON and value is not None}
    if stage.scale is not None:
        body[SCALE] = _texts(body.pop(REPLICAS))
    if stage.command:
        body["exec"] = list(stage.command)
    if stage.is_placed:
        body[HOST] = LOCAL if stage.on == LOCAL else _host_of(spec, stage)
    return body


def _texts(entry: Mapping[str, Any]) -> Json:
    """Return an entry whose times are texts: YAML reads 0 as a number."""
    return {key: str(value) if key in _TEXTS else value for key, value in entry.items()}


def _host_of(spec: PipelineSpec, stage: StageSpec) -> str:
    """Return the host that a stage is on; PipelineError where it is not one."""
    fitting = [host.name for host in spec.hosts if host.matches(stage.on)]
    where = f"{spec.path}:{stage.line}: stage {stage.name}"
    if not fitting:
        known = ", ".join(host.name for host in spec.hosts) or "none: add hosts:"
        raise PipelineError(f"{where}: no host is {stage.on!r}", f"hosts: {known}")
    if len(fitting) > 1:
        what = f"{where}: on {stage.on!r} fits {', '.join(fitting)}"
        raise PipelineError(what, "in a cluster a stage is on one host: name it")
    return fitting[0]


def _host(spec: PipelineSpec, host: HostSpec) -> Json:
    check_keys(host.pod, _POD, f"{spec.path}:{host.line}: pod of host {host.name}", PipelineError)
    return {"name": host.name} | ({"class": host.host_class} if host.host_class else {}) | dict(host.pod)
