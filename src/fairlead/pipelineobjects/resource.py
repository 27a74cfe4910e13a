"""The Pipeline resource as values, and the document that its coordinator reads. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.errors import PipelineError
from fairlead.ownedobjects.confined import AcceleratorShare
from fairlead.pipeline.spec import PipelineSpec
from fairlead.pipeline.yaml_file import read_document
from fairlead.pipelineobjects.names import LOCAL, PORT, SLOTS, host_name
from fairlead.pipelineobjects.plan_spec import PLAN, PlanSpec, read_plan
from fairlead.reconcile import Manifest
from fairlead.units import Seconds, parse_duration

SCHEDULER: Final = "fairlead"
ON: Final = "on"
HOST: Final = "host"
"""The key of a stage in the resource that is `on` in a file: kubectl reads `on` in YAML as true."""
REPLICAS: Final = "replicas"
SCALE: Final = "scale"
"""The key of a stage in the resource for a mapping under `replicas` in a file: a field has one type."""
OBSERVED_FOR: Final = Seconds(30.0)
CANARY_FOR: Final = Seconds(60.0)
_FILE_KEYS: Final = ("edges", "fuse")


@dataclass(frozen=True, slots=True)
class HostGroup:
    """A host of a Pipeline: one pod, and the nodes on which it may be."""

    name: str
    node_selector: Mapping[str, str] = field(default_factory=dict)
    device_class: str = ""
    """A device of the catalog that its node must have."""
    tolerations: tuple[Manifest, ...] = ()
    resources: Manifest = field(default_factory=dict)
    accelerator: AcceleratorShare | None = None
    data_claim: str = ""
    """The PersistentVolumeClaim at /data; empty: memory of the node that ends with the pod."""
    tls_secret: str = ""
    """A Secret with tls.crt, tls.key and ca.crt of another authority; empty: the controller issues them."""


@dataclass(frozen=True, slots=True)
class FilesRef:
    """The ConfigMap with the user's code."""

    config_map: str
    paths: Mapping[str, str] = field(default_factory=dict)
    """By key: the path in the folder; empty: each key is a file."""


@dataclass(frozen=True, slots=True)
class CanaryPolicy:
    """How a new version is tried before stages move to it."""

    percent: int
    """Of the frames, at most."""
    duration: Seconds


@dataclass(frozen=True, slots=True)
class UpdatePolicy:
    """What follows an update of a run that goes on."""

    observe: Seconds = OBSERVED_FOR
    """How long the run is observed, and its last pods are kept."""
    is_rolled_back: bool = True
    """Whether the run goes back to them if it became worse."""
    canary: CanaryPolicy | None = None
    """None: stages move without one."""


@dataclass(frozen=True, slots=True)
class PipelineResource:
    """One Pipeline of a cluster."""

    namespace: str
    name: str
    generation: int
    spec: PipelineSpec
    document: Manifest
    """The file that the coordinator reads, with every host in its first slot."""
    hosts: tuple[HostGroup, ...]
    local: HostGroup
    image: str = ""
    """Empty: that of the operator's release."""
    pull_policy: str = ""
    pull_secrets: tuple[str, ...] = ()
    scheduler: str = SCHEDULER
    files: FilesRef | None = None
    state_claim: str = ""
    """The PersistentVolumeClaim with the progress of the run; empty: it ends with the coordinator's pod."""
    is_suspended: bool = False
    plan: PlanSpec | None = None
    """None: stages without a host are in the coordinator's pod."""
    update: UpdatePolicy = UpdatePolicy()

    def document_at(self, slots: Mapping[str, str]) -> dict[str, Any]:
        """Return the file that the coordinator reads where hosts are in these slots."""
        hosts = {
            group.name: {"address": self.address(group.name, slots.get(group.name, SLOTS[0]))}
            for group in self.hosts
        }
        return {**self.document, **({"hosts": hosts} if hosts else {})}

    def address(self, host: str, slot: str) -> str:
        """Return where a host listens."""
        return f"{host_name(self.namespace, self.name, host, slot)}:{PORT}"

    def group(self, name: str) -> HostGroup:
        """Return the host of this name."""
        return self.local if name == LOCAL else next(each for each in self.hosts if each.name == name)

    @property
    def used_hosts(self) -> tuple[HostGroup, ...]:
        """The hosts that have a stage, without the coordinator's."""
        used = {stage.on for stage in self.spec.stages}
        return tuple(group for group in self.hosts if group.name in used)


_OWN_ENDS: Final = ("numbers", "rtsp", "v4l2", "jsonl", "stdout", "null", "file", "http", "video", "images")
"""Sources and sinks of fairlead's own; `generator` and `call` are code of the user's."""


def has_code(resource: PipelineResource, host: str) -> bool:
    """Return whether a host needs the user's image or files, beyond fairlead's own sources and sinks."""
    stages = [each for each in resource.spec.stages if each.on == host]
    return any(each.target not in _OWN_ENDS or not _is_outside(each.options) for each in stages)


def _is_outside(options: Mapping[str, Any]) -> bool:
    """Return whether the paths of options are outside the folder of the files."""
    path = options.get("path")
    return path is None or str(path).startswith("/")


def read_resource(manifest: Manifest) -> PipelineResource:
    """Return the resource that a manifest describes; PipelineError names what cannot be read."""
    meta, body = manifest["metadata"], manifest.get("spec") or {}
    namespace, name = meta.get("namespace") or "default", meta["name"]
    hosts = tuple(_read_group(each["name"], each) for each in body.get("hosts") or ())
    addresses = {
        each.name: {"address": f"{host_name(namespace, name, each.name, SLOTS[0])}:{PORT}"} for each in hosts
    }
    document = {"pipeline": name, **{key: body[key] for key in _FILE_KEYS if key in body}}
    document["stages"] = [_file_stage(each) for each in body.get("stages") or ()]
    document |= {"hosts": addresses} if addresses else {}
    return PipelineResource(
        namespace,
        name,
        int(meta.get("generation") or 0),
        read_document(document),
        document,
        hosts,
        _read_group(LOCAL, body.get(LOCAL) or {}),
        image=body.get("image") or "",
        pull_policy=body.get("imagePullPolicy") or "",
        pull_secrets=tuple(each["name"] for each in body.get("imagePullSecrets") or ()),
        scheduler=body.get("schedulerName") or SCHEDULER,
        files=_read_files(body.get("files")),
        state_claim=body.get("stateClaim") or "",
        is_suspended=bool(body.get("suspend")),
        plan=read_plan(body.get(PLAN)),
        update=_read_update(body.get("update") or {}),
    )


def _read_update(body: Mapping[str, Any]) -> UpdatePolicy:
    observe = _seconds(body, "observe", UpdatePolicy().observe)
    canary = body.get("canary")
    return UpdatePolicy(observe, bool(body.get("rollback", True)), _read_canary(canary) if canary else None)


def _read_canary(body: Mapping[str, Any]) -> CanaryPolicy:
    return CanaryPolicy(int(body["percent"]), _seconds(body, "duration", CANARY_FOR))


def _seconds(body: Mapping[str, Any], key: str, default: Seconds) -> Seconds:
    try:
        return default if body.get(key) is None else parse_duration(str(body[key]))
    except ValueError as error:
        raise PipelineError(f"update.{key}: {error}", "write for example 30s") from None


_FILE_NAMES: Final = {HOST: ON, SCALE: REPLICAS}


def _file_stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    return {_FILE_NAMES.get(key, key): value for key, value in stage.items()}


def _read_group(name: str, body: Mapping[str, Any]) -> HostGroup:
    share = body.get("accelerator")
    return HostGroup(
        name,
        body.get("nodeSelector") or {},
        body.get("class") or "",
        tuple(body.get("tolerations") or ()),
        body.get("resources") or {},
        AcceleratorShare(str(share["memory"]), share.get("compute"), int(share.get("count") or 1))
        if share
        else None,
        body.get("dataClaim") or "",
        body.get("tlsSecret") or "",
    )


def _read_files(body: Mapping[str, Any] | None) -> FilesRef | None:
    if not body:
        return None
    return FilesRef(body["configMap"], {each["key"]: each["path"] for each in body.get("items") or ()})
