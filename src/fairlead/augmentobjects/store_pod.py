"""The pod that serves the data of an Augmentation, and moves it between its tiers. Pure."""

from typing import Any, Final

from fairlead.augmentobjects.claims import claim_names
from fairlead.augmentobjects.names import (
    DATA,
    DATA_VOLUME,
    FAST,
    FAST_VOLUME,
    FILES,
    METRICS_PORT,
    PORT,
    STATE,
    STORE,
    credentials_name,
    new_object,
    settings_name,
    store_name,
    tls_name,
)
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.keys import AUGMENTATION, AUGMENTATION_PART, SPEC_HASH
from fairlead.ownedobjects.confined import container_security, leave_lost_nodes, pod_security, resources_of
from fairlead.ownedobjects.kinds import PODS, digest
from fairlead.reconcile import Manifest

FREEZE: Final = "freeze"
QUOTA: Final = "quota"
TMP: Final = "/tmp"  # noqa: S108 - the path in a pod, an emptyDir of its own
_TLS: Final = "/etc/fairlead/tls"
_CREDENTIALS: Final = "/etc/fairlead/credentials"
_SETTINGS: Final = "/etc/fairlead/settings"
_END: Final = 15
"""Seconds in which uploads in flight finish."""
_REQUESTS: Final = {"cpu": "50m", "memory": "64Mi"}
_READABLE: Final = 0o440
_MAKE_FOLDERS: Final = "import os, sys; [os.makedirs(each, 0o770, exist_ok=True) for each in sys.argv[1:]]"
Json = dict[str, Any]


def store_pod(resource: AugmentationResource, default_image: str) -> Json:
    """Return the pod of the store, with the digest of what it is made from."""
    spec = {
        **pod_base(resource),
        "terminationGracePeriodSeconds": _END,
        "initContainers": [folders_container(resource, default_image)],
        "containers": [_container(resource, default_image), *_tier_container(resource, default_image)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            *claim_volumes(resource),
            _secret_volume("tls", tls_name(resource.name)),
            _secret_volume("credentials", credentials_name(resource.name)),
            {"name": "settings", "configMap": {"name": settings_name(resource.name)}},
        ],
    }
    pod = new_object(PODS, resource.namespace, resource.name, store_name(resource.name), spec=spec)
    pod["metadata"]["labels"][AUGMENTATION_PART] = STORE
    return with_hash(pod)


def _container(resource: AugmentationResource, default_image: str) -> Json:
    tiers = resource.spec.storage.fast is not None
    root = f"{FAST_VOLUME}/{FILES}" if tiers else f"{DATA_VOLUME}/{FILES}"
    command = ["fairlead", "serve", "store", "--root", root, "--listen", f"0.0.0.0:{PORT}"]
    command += ["--metrics", f"0.0.0.0:{METRICS_PORT}"]
    command += ["--also", f"{DATA_VOLUME}/{FILES}"] if tiers else []
    command += ["--state", f"{DATA_VOLUME}/{STATE}"]
    command += ["--token-file", f"{_CREDENTIALS}/token", "--invite-key-file", f"{_CREDENTIALS}/invite-key"]
    command += ["--tls-cert", f"{_TLS}/tls.crt", "--tls-key", f"{_TLS}/tls.key"]
    command += ["--quota-file", f"{_SETTINGS}/{QUOTA}", "--freeze-file", f"{_SETTINGS}/{FREEZE}"]
    ready: Json = {"tcpSocket": {"port": STORE}, "timeoutSeconds": 5}
    container = {
        "name": STORE,
        "image": resource.image or default_image,
        "command": command,
        "env": [{"name": "HOME", "value": TMP}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "ports": [
            {"name": STORE, "containerPort": PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "resources": resources_of({}, _REQUESTS, None),
        "startupProbe": ready | {"periodSeconds": 1, "failureThreshold": 120},
        "readinessProbe": ready | {"periodSeconds": 5, "failureThreshold": 3},
        "livenessProbe": ready | {"periodSeconds": 10, "failureThreshold": 6},
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": TMP},
            *claim_mounts(resource),
            {"name": "tls", "mountPath": _TLS, "readOnly": True},
            {"name": "credentials", "mountPath": _CREDENTIALS, "readOnly": True},
            {"name": "settings", "mountPath": _SETTINGS, "readOnly": True},
        ],
    }
    return container | ({"imagePullPolicy": resource.pull_policy} if resource.pull_policy else {})


def _tier_container(resource: AugmentationResource, default_image: str) -> list[Json]:
    """Return the container that moves files between two tiers; none where there is one."""
    capacity = resource.spec.storage.fast
    if capacity is None:
        return []
    command = ["fairlead", "serve", "tier", "--fast", f"{FAST_VOLUME}/{FILES}"]
    command += ["--slow", f"{DATA_VOLUME}/{FILES}", "--capacity", str(capacity)]
    container = {
        "name": "tier",
        "image": resource.image or default_image,
        "command": command,
        "env": [{"name": "HOME", "value": TMP}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "resources": resources_of({}, _REQUESTS, None),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": TMP}, *claim_mounts(resource)],
    }
    return [container | ({"imagePullPolicy": resource.pull_policy} if resource.pull_policy else {})]


def pod_base(resource: AugmentationResource) -> Json:
    """Return what the specs of all pods of an Augmentation have."""
    base: Json = {
        "schedulerName": resource.scheduler,
        "restartPolicy": "Always",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(resource.user),
        "tolerations": [*map(dict, resource.tolerations), *leave_lost_nodes()],
    }
    base |= {"nodeSelector": dict(resource.node_selector)} if resource.node_selector else {}
    if resource.pull_secrets:
        base["imagePullSecrets"] = [{"name": name} for name in resource.pull_secrets]
    if resource.is_on_one_node:
        # The first pod matches itself, and chooses the node.
        selector = {"matchLabels": {AUGMENTATION: resource.name}}
        term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
        base["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return base


def folders_container(resource: AugmentationResource, default_image: str) -> Json:
    """Return the container that makes the folders of the volumes, so that they have our owner."""
    volumes = _volumes(resource)
    folders = [f"{path}/{FILES}" for path in volumes.values()] + [f"{DATA_VOLUME}/{STATE}"]
    container = {
        "name": "folders",
        "image": resource.image or default_image,
        "command": ["/usr/bin/python3", "-c", _MAKE_FOLDERS, *folders],
        "resources": resources_of({}, _REQUESTS, None),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": claim_mounts(resource),
    }
    return container | ({"imagePullPolicy": resource.pull_policy} if resource.pull_policy else {})


def _volumes(resource: AugmentationResource) -> dict[str, str]:
    """Return the paths of the volumes by the part of their claim."""
    paths = {DATA: DATA_VOLUME, FAST: FAST_VOLUME}
    return {part: paths[part] for part in claim_names(resource)}


def claim_volumes(resource: AugmentationResource) -> list[Json]:
    """Return the volumes of the claims."""
    return [
        {"name": part, "persistentVolumeClaim": {"claimName": name}}
        for part, name in claim_names(resource).items()
    ]


def claim_mounts(resource: AugmentationResource, folder: str = "") -> list[Json]:
    """Return where the claims are, whole or one folder of each; the same places for all containers."""
    below = {"subPath": folder} if folder else {}
    return [
        {"name": part, "mountPath": f"{path}/{folder}".rstrip("/"), **below}
        for part, path in _volumes(resource).items()
    ]


def with_hash(pod: Json) -> Json:
    """Return a pod with the digest of what it is made from."""
    meta = pod["metadata"]
    return {
        **pod,
        "metadata": {**meta, "annotations": {**meta.get("annotations", {}), SPEC_HASH: digest(pod)}},
    }


def with_annotation(pod: Manifest, name: str, value: str) -> Json:
    """Return a pod with an annotation more, which is no part of what it is made from."""
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "annotations": {**meta["annotations"], name: value}}}


def _secret_volume(name: str, secret: str) -> Json:
    return {"name": name, "secret": {"secretName": secret, "defaultMode": _READABLE}}
