"""The pods of a Pipeline: one for each host with stages, and one for the coordinator. Pure.

A pod has a fixed user, a read-only root, no capabilities and no token. It writes to /data, to /tmp and, the
coordinator, to its state; each is a volume.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from fairlead.keys import (
    GANG,
    GANG_SIZE,
    PIPELINE_FILE,
    PIPELINE_HOST,
    PIPELINE_SLOT,
    PREFIX,
    SPEC_HASH,
)
from fairlead.ownedobjects.confined import (
    container_security,
    leave_lost_nodes,
    pod_security,
    resources_of,
    share_annotations,
)
from fairlead.ownedobjects.kinds import PODS, digest
from fairlead.pipelineobjects.names import LOCAL, PAGES_PORT, PORT, pod_name, service_name, slotted, tls_name
from fairlead.pipelineobjects.resource import HostGroup, PipelineResource, has_code
from fairlead.pipelineobjects.wiring import FILE_KEY, file_name, new_object
from fairlead.reconcile import Manifest

FILES: Final = "/etc/fairlead/files"
DATA: Final = "/data"
_TLS: Final = "/etc/fairlead/tls"
_STATE: Final = "/var/lib/fairlead/state"
_TMP: Final = "/tmp"  # noqa: S108 - the path in a pod, an emptyDir of its own
_DRAIN: Final = 60
"""Seconds in which the coordinator lets frames on their way finish."""
_END: Final = 15
"""Seconds in which a host ends what its coordinator has left."""
_STARTING: Final = 600
"""Seconds in which hosts must answer, and stages must be open."""
_REQUESTS: Final = {"cpu": "100m", "memory": "128Mi"}
_READABLE: Final = 0o440
_EXECUTABLE: Final = 0o555
Json = dict[str, Any]


def wanted_pods(
    resource: PipelineResource, default_image: str, running: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Manifest]:
    """Return the pods of a Pipeline by host, without a slot; the coordinator's is the last.

    `running` are the images that hosts have now: one whose stages are fairlead's own ends keeps its image.
    """
    image = resource.image or default_image
    images = {host: known for host, known in running.items() if not has_code(resource, host)}
    pods = {
        group.name: _host_pod(resource, group, images.get(group.name, image)) for group in resource.used_hosts
    }
    pods[LOCAL] = _coordinator_pod(resource, images.get(LOCAL, image))
    # The digest does not count the gang: another number of hosts is no reason to replace those that stay.
    return {name: _with_gang(_with_hash(pod), resource, len(pods)) for name, pod in pods.items()}


def in_slot(resource: PipelineResource, pod: Manifest, slot: str) -> Manifest:
    """Return the pod of a host in one of its slots: its name, and that by which others reach it."""
    meta = pod["metadata"]
    host = meta["labels"][PIPELINE_HOST]
    named = {
        **meta,
        "name": pod_name(resource.name, host, slot),
        "labels": {**meta["labels"], PIPELINE_SLOT: slot},
    }
    return {**pod, "metadata": named, "spec": {**pod["spec"], "hostname": slotted(host, slot)}}


def with_file(pod: Manifest, digest_of_file: str) -> Manifest:
    """Return the coordinator's pod with the digest of its file; a change refreshes the volume."""
    return _with_annotations(dict(pod), {PIPELINE_FILE: digest_of_file})


def image_of(pod: Manifest) -> str:
    """Return the image of an observed pod; empty: it has no container."""
    containers = pod.get("spec", {}).get("containers") or ()
    return str(containers[0].get("image", "")) if containers else ""


def _host_pod(resource: PipelineResource, group: HostGroup, image: str) -> Json:
    command = ["fairlead", "pipeline", "worker", "--listen", f"0.0.0.0:{PORT}", *_tls_options()]
    command += ["--folder", FILES if _files(resource, group) else DATA, "--health", f"0.0.0.0:{PAGES_PORT}"]
    ports = [{"name": "frames", "containerPort": PORT, "protocol": "TCP"}]
    return _pod(resource, group, image, command, ports, _END)


def _coordinator_pod(resource: PipelineResource, image: str) -> Json:
    command = ["fairlead", "pipeline", "run", f"{FILES}/{FILE_KEY}", "--quiet", "--state", _STATE, "--resume"]
    command += ["--follow", "--metrics", f"0.0.0.0:{PAGES_PORT}"]
    if resource.used_hosts:
        command += [*_tls_options(), "--hosts-within", f"{_STARTING}s"]
    pod = _pod(resource, resource.local, image, command, [], _DRAIN)
    spec = pod["spec"]
    spec["restartPolicy"] = "OnFailure"  # a run that has ended stays ended
    spec["volumes"].append(_volume("state", resource.state_claim))
    spec["containers"][0]["volumeMounts"].append({"name": "state", "mountPath": _STATE})
    return pod


def _tls_options() -> list[str]:
    return ["--ca", f"{_TLS}/ca.crt", "--cert", f"{_TLS}/tls.crt", "--key", f"{_TLS}/tls.key"]


def _pod(
    resource: PipelineResource, group: HostGroup, image: str, command: list[str], ports: list[Json], end: int
) -> Json:
    container = {
        "name": "pipeline",
        "image": image,
        "command": command,
        "env": [{"name": "HOME", "value": _TMP}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "ports": [*ports, {"name": "metrics", "containerPort": PAGES_PORT, "protocol": "TCP"}],
        "resources": resources_of(group.resources, _REQUESTS, group.accelerator),
        **_probes(),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(resource, group),
    }
    container |= {"imagePullPolicy": resource.pull_policy} if resource.pull_policy else {}
    spec = {
        "hostname": group.name,
        "subdomain": service_name(resource.name),
        "schedulerName": resource.scheduler,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": end,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": _volumes(resource, group),
        "tolerations": [*map(dict, group.tolerations), *leave_lost_nodes()],
        **_placement(resource, group),
    }
    pod = new_object(PODS, resource, pod_name(resource.name, group.name), spec=spec)
    pod["metadata"]["labels"][PIPELINE_HOST] = group.name
    pod["metadata"]["annotations"] = share_annotations(group.accelerator, group.device_class)
    return pod


def _probes() -> Json:
    """Return the probes; the pages of a coordinator are there once its hosts have answered."""
    alive: Json = {"httpGet": {"path": "/healthz", "port": "metrics", "scheme": "HTTP"}, "timeoutSeconds": 5}
    ready: Json = {"httpGet": {"path": "/readyz", "port": "metrics", "scheme": "HTTP"}, "timeoutSeconds": 5}
    return {
        "startupProbe": alive | {"periodSeconds": 2, "failureThreshold": _STARTING // 2 + 30},
        "livenessProbe": alive | {"periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": ready | {"periodSeconds": 2, "failureThreshold": 3},
    }


def _volume(name: str, claim: str = "") -> Json:
    return {"name": name, **({"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}})}


def _volumes(resource: PipelineResource, group: HostGroup) -> list[Json]:
    volumes = [_volume("tmp"), _volume("data", group.data_claim)]
    if resource.used_hosts:
        secret = group.tls_secret or tls_name(resource.name, group.name)
        volumes.append({"name": "tls", "secret": {"secretName": secret, "defaultMode": _READABLE}})
    sources = _files(resource, group)
    if sources:
        volumes.append({"name": "files", "projected": {"defaultMode": _EXECUTABLE, "sources": sources}})
    return volumes


def _files(resource: PipelineResource, group: HostGroup) -> list[Json]:
    """Return what the folder of the files is made of: the user's, and beside them the file of the run."""
    sources: list[Json] = []
    if resource.files and has_code(resource, group.name):
        source: Json = {"name": resource.files.config_map}
        if resource.files.paths:
            source["items"] = [{"key": key, "path": path} for key, path in resource.files.paths.items()]
        sources.append({"configMap": source})
    if group is resource.local:
        file = {"key": FILE_KEY, "path": FILE_KEY}
        sources.append({"configMap": {"name": file_name(resource.name), "items": [file]}})
    return sources


def _mounts(resource: PipelineResource, group: HostGroup) -> list[Json]:
    mounts: list[Json] = [{"name": "tmp", "mountPath": _TMP}, {"name": "data", "mountPath": DATA}]
    if resource.used_hosts:
        mounts.append({"name": "tls", "mountPath": _TLS, "readOnly": True})
    if _files(resource, group):
        mounts.append({"name": "files", "mountPath": FILES, "readOnly": True})
    return mounts


def _placement(resource: PipelineResource, group: HostGroup) -> Json:
    placement: Json = {"nodeSelector": dict(group.node_selector)} if group.node_selector else {}
    if group.device_class:
        has_device = {"key": f"{PREFIX}{group.device_class}.count", "operator": "Exists"}
        required = {"nodeSelectorTerms": [{"matchExpressions": [has_device]}]}
        placement["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if resource.pull_secrets:
        placement["imagePullSecrets"] = [{"name": name} for name in resource.pull_secrets]
    return placement


def _with_gang(pod: Json, resource: PipelineResource, size: int) -> Json:
    """Return a pod that our scheduler places together with the others, or not at all."""
    if resource.scheduler == "default-scheduler" or size == 1:
        return pod
    gang = {GANG: resource.name, GANG_SIZE: str(size)}
    return _with_annotations(pod, gang)


def _with_hash(pod: Json) -> Json:
    return _with_annotations(pod, {SPEC_HASH: digest(pod)})


def _with_annotations(pod: Json, more: Mapping[str, str]) -> Json:
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "annotations": {**meta["annotations"], **more}}}
