"""The pods of the image job: one for the bare command, and those that an Augmentation becomes. Pure.

What an Augmentation becomes is what the controller decides, which the operator would write. Only the program
differs: instead of their images the pods have this machine's Python, at the paths that it has here.
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from fairlead.augmentation import AugmentationSpec, StorageRequest
from fairlead.augmentobjects.certificates import fingerprint
from fairlead.augmentobjects.claims import claim_names
from fairlead.augmentobjects.controller import AugmentationController
from fairlead.augmentobjects.credentials import INVITE_KEY
from fairlead.augmentobjects.from_spec import resource_of
from fairlead.augmentobjects.names import DATA, credentials_name, tls_name
from fairlead.augmentobjects.resource import Application, AugmentationResource
from fairlead.lab.build.images import PAUSE
from fairlead.labaugment.host import HostPython
from fairlead.ownedobjects.certificates import CERT, Issuer
from fairlead.ownedobjects.confined import container_security, pod_security
from fairlead.reconcile import Observed
from fairlead.units import Bytes

NAMESPACE: Final = "kraf"
NAME: Final = "kraf"
BARE: Final = "bare"
_CLASS: Final = "host"
"""Of the one volume: it has no provisioner."""
_PROGRAMS: Final = {"/usr/bin/python3": (), "fairlead": ("-m", "fairlead")}
"""What the containers of an Augmentation run: with which words Python runs it."""
Json = dict[str, Any]


def bare_pod(python: HostPython, inputs: Sequence[str], results: str, user: int) -> Json:
    """Return a pod that waits, for a command that reads the inputs and writes results; no CPU limit."""
    container = {
        "name": BARE,
        "image": PAUSE,
        "imagePullPolicy": "Never",
        "securityContext": container_security(),
        "volumeMounts": [{"name": "results", "mountPath": results}],
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(user) | {"runAsNonRoot": user != 0},
        "containers": [container],
        "volumes": [{"name": "results", "hostPath": {"path": results}}],
    }
    pod = _new("v1", "Pod", BARE, NAMESPACE) | {"spec": spec}
    return on_host(pod, python, inputs)


def new_resource(mebibytes: int, environ: Mapping[str, str], device: str) -> AugmentationResource:
    """Return the Augmentation: a store of this size, and a worker beside it with an environment."""
    command = ("fairlead", "augment", "work")
    storage = StorageRequest(Bytes(mebibytes << 20), classes=(_CLASS,))
    spec = AugmentationSpec(NAME, device, PAUSE, command, storage, env=environ)
    return AugmentationResource(
        NAMESPACE,
        NAME,
        1,
        spec,
        Application(pull_policy="Never"),
        image=PAUSE,
        pull_policy="Never",
        scheduler="default-scheduler",
    )


def augmentation_objects(
    resource: AugmentationResource, python: HostPython, inputs: Sequence[str], issuer: Issuer, now: datetime
) -> list[Json]:
    """Return what an Augmentation becomes, with this machine's Python in the pods."""
    controller = AugmentationController(issuer, resource.image, is_shown=True)
    decided = controller.reconcile(Observed(resource_of(resource), {}, {}, now))
    return [
        on_host(dict(each), python, inputs) if each["kind"] == "Pod" else dict(each)
        for each in decided.objects
    ]


def volume(resource: AugmentationResource, folder: Path) -> Json:
    """Return the volume of the claim of an Augmentation: a folder of this machine."""
    claim = {"namespace": resource.namespace, "name": claim_names(resource)[DATA]}
    spec = {
        "storageClassName": _CLASS,
        "accessModes": [resource.access_mode],
        "capacity": {"storage": str(resource.spec.storage.size)},
        "hostPath": {"path": str(folder)},
        "claimRef": claim,
    }
    return _new("v1", "PersistentVolume", f"{resource.namespace}-{claim['name']}") | {"spec": spec}


def namespace() -> Json:
    """Return the namespace of all of it."""
    return _new("v1", "Namespace", NAMESPACE)


def invite_key(objects: Sequence[Mapping[str, Any]], resource: AugmentationResource) -> bytes:
    """Return the key by which invites are signed."""
    return _secret(objects, credentials_name(resource.name), INVITE_KEY).strip()


def store_fingerprint(objects: Sequence[Mapping[str, Any]], resource: AugmentationResource) -> str:
    """Return the fingerprint of the certificate of the store."""
    return fingerprint(_secret(objects, tls_name(resource.name), CERT))


def on_host(pod: Json, python: HostPython, inputs: Sequence[str] = ()) -> Json:
    """Return a pod whose containers run a Python of this machine, and see files of it, read-only."""
    places = {f"host-{number}": path for number, path in enumerate((*python.places, *inputs))}
    mounts = [{"name": name, "mountPath": path, "readOnly": True} for name, path in places.items()]
    volumes = [{"name": name, "hostPath": {"path": path}} for name, path in places.items()]
    spec = pod["spec"]
    changed = {
        key: [_container(each, python, mounts) for each in spec[key]]
        for key in ("initContainers", "containers")
        if key in spec
    }
    return {**pod, "spec": {**spec, **changed, "volumes": [*spec["volumes"], *volumes]}}


def _container(container: Json, python: HostPython, mounts: list[Json]) -> Json:
    """Return a container with other places, and the Python of this machine as its program."""
    known = container.get("env", [])
    named = {each["name"] for each in known}
    added = [{"name": name, "value": text} for name, text in python.environ.items() if name not in named]
    changed: Json = {"env": [*known, *added], "volumeMounts": [*container["volumeMounts"], *mounts]}
    if "command" in container:
        program, *words = container["command"]
        changed["command"] = [python.program, *_PROGRAMS[program], *words]
    return {**container, **changed}


def _secret(objects: Sequence[Mapping[str, Any]], name: str, key: str) -> bytes:
    found = next(each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Secret", name))
    return b64decode(found["data"][key])


def _new(version: str, kind: str, name: str, namespace: str = "") -> Json:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta}
