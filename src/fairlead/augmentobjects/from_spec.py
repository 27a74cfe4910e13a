"""What a user asks for as an Augmentation of a cluster. Pure."""

from typing import Any

from fairlead.augmentation import AugmentationSpec
from fairlead.augmentobjects.names import AUGMENTATIONS
from fairlead.augmentobjects.resource import Application, AugmentationResource
from fairlead.units import format_quantity

Json = dict[str, Any]


def resource_of(wanted: AugmentationResource) -> Json:
    """Return the resource of what is wanted; what is as by default is left out."""
    asked = wanted.exposure
    service = {
        "type": asked.type,
        **({"hosts": list(asked.hosts)} if asked.hosts else {}),
        **({"nodePort": asked.node_port} if asked.node_port else {}),
    }
    spec: Json = {
        "device": wanted.spec.device,
        "storage": _storage(wanted),
        "service": service,
        "schedulerName": wanted.scheduler,
    }
    if wanted.application is not None:
        spec["application"] = _application(wanted.spec, wanted.application)
    optional = {
        "image": wanted.image,
        "imagePullPolicy": wanted.pull_policy,
        "nodeSelector": dict(wanted.node_selector),
    }
    spec |= {name: value for name, value in optional.items() if value}
    meta = {"name": wanted.name, "namespace": wanted.namespace}
    head = {"apiVersion": AUGMENTATIONS.api_version, "kind": AUGMENTATIONS.kind}
    return {**head, "metadata": meta, "spec": spec}


def _storage(wanted: AugmentationResource) -> Json:
    storage = wanted.spec.storage
    return {
        "size": format_quantity(storage.size),
        "accessMode": wanted.access_mode,
        **({"fast": format_quantity(storage.fast)} if storage.fast is not None else {}),
        **({"classes": list(storage.classes)} if storage.classes else {}),
    }


def _application(spec: AugmentationSpec, program: Application) -> Json:
    default = Application()
    body: Json = {"image": spec.image}
    if spec.command:
        body["command"] = list(spec.command)
    if spec.env:
        body["env"] = [{"name": name, "value": value} for name, value in spec.env.items()]
    if spec.accelerator_memory is not None:
        compute = {} if program.compute is None else {"compute": program.compute}
        body["accelerator"] = {"memory": format_quantity(spec.accelerator_memory), **compute}
    optional: Json = {
        "digest": spec.digest,
        "ports": list(program.ports),
        "writableRoot": program.has_writable_root,
        "imagePullPolicy": program.pull_policy,
        "resources": dict(program.resources),
    }
    body |= {"user": program.user} if program.user != default.user else {}
    return body | {name: value for name, value in optional.items() if value}
