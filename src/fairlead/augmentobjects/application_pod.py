"""The pod of the application of an Augmentation: the user's image beside the data, with its share. Pure."""

from typing import Any, Final

from fairlead.augmentobjects.credentials import TOKEN
from fairlead.augmentobjects.names import (
    APPLICATION,
    DATA_VOLUME,
    FAST_VOLUME,
    FILES,
    PORT,
    application_name,
    credentials_name,
    new_object,
    service_hosts,
    tls_name,
)
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.augmentobjects.store_pod import (
    TMP,
    claim_mounts,
    claim_volumes,
    folders_container,
    pod_base,
    with_hash,
)
from fairlead.keys import AUGMENTATION_PART
from fairlead.ownedobjects.certificates import CERT
from fairlead.ownedobjects.confined import container_security, resources_of, share_annotations
from fairlead.ownedobjects.kinds import PODS

FOLDER_VARIABLE: Final = "FAIRLEAD_DATA"
"""The environment variable that names the folder with the device's files."""
STORE_VARIABLE: Final = "FAIRLEAD_STORE"
"""The environment variable with the address of the store, as a worker in the pod reaches it."""
SESSION_VARIABLE: Final = "FAIRLEAD_SESSION"
"""The environment variable that names the folder with the store's token and certificate."""
_SESSION: Final = "/etc/fairlead/session"
_READABLE: Final = 0o440
_REQUESTS: Final = {"cpu": "100m", "memory": "128Mi"}
_END: Final = 30


def application_pod(resource: AugmentationResource, default_image: str) -> dict[str, Any] | None:
    """Return the pod of the application, with the digest of what it is made from; None: there is none."""
    program, share = resource.application, resource.share
    if program is None:
        return None
    container = {
        "name": APPLICATION,
        "image": resource.spec.image,
        **({"command": list(resource.spec.command)} if resource.spec.command else {}),
        "env": _environment(resource),
        "ports": [
            {"name": f"port-{port}", "containerPort": port, "protocol": "TCP"} for port in program.ports
        ],
        "resources": resources_of(program.resources, _REQUESTS, share),
        "securityContext": container_security(has_writable_root=program.has_writable_root),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": TMP},
            *claim_mounts(resource, FILES),
            {"name": "session", "mountPath": _SESSION, "readOnly": True},
        ],
        **({"imagePullPolicy": program.pull_policy} if program.pull_policy else {}),
    }
    spec = {
        **pod_base(resource),
        "terminationGracePeriodSeconds": _END,
        "initContainers": [folders_container(resource, default_image)],
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}, *claim_volumes(resource), _session_volume(resource)],
    }
    pod = new_object(PODS, resource.namespace, resource.name, application_name(resource.name), spec=spec)
    pod["metadata"]["labels"][AUGMENTATION_PART] = APPLICATION
    pod["metadata"]["annotations"] = share_annotations(share)
    return with_hash(pod)


def _session_volume(resource: AugmentationResource) -> dict[str, Any]:
    """Return what a worker in the pod needs to talk to the store; the key of invites is not in it."""
    parts = ((credentials_name(resource.name), TOKEN), (tls_name(resource.name), CERT))
    sources = [{"secret": {"name": name, "items": [{"key": key, "path": key}]}} for name, key in parts]
    return {"name": "session", "projected": {"sources": sources, "defaultMode": _READABLE}}


def _environment(resource: AugmentationResource) -> list[dict[str, str]]:
    volume = DATA_VOLUME if resource.spec.storage.fast is None else FAST_VOLUME
    own = {
        "HOME": TMP,
        FOLDER_VARIABLE: f"{volume}/{FILES}",
        STORE_VARIABLE: f"https://{service_hosts(resource.namespace, resource.name)[0]}:{PORT}",
        SESSION_VARIABLE: _SESSION,
        "FAIRLEAD_AUGMENTATION": resource.name,
        "FAIRLEAD_AUGMENTATION_DEVICE": resource.spec.device,
    }
    return [{"name": name, "value": value} for name, value in {**own, **resource.spec.env}.items()]
