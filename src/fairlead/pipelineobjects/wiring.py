"""What joins the pods of a Pipeline: the file of the run, the headless Service, the NetworkPolicy. Pure."""

import json
from typing import Any, Final

from fairlead.keys import PIPELINE
from fairlead.pipelineobjects.names import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    PAGES_PORT,
    PORT,
    SERVICES,
    digest,
    labels,
    service_name,
)
from fairlead.pipelineobjects.resource import PipelineResource
from fairlead.reconcile import Manifest, ResourceKind

FILE_KEY: Final = "pipeline.yaml"


def new_object(kind: ResourceKind, resource: PipelineResource, name: str, **body: Any) -> dict[str, Any]:
    """Return an object of a Pipeline, with its labels."""
    meta = {"name": name, "namespace": resource.namespace, "labels": labels(resource.name)}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **body}


def file_name(resource: PipelineResource) -> str:
    """Return the name of the ConfigMap with the file: another file has another name."""
    return f"{resource.name}-file-{digest(resource.document, 8)}"


def file_map(resource: PipelineResource) -> Manifest:
    """Return the ConfigMap with the file that the coordinator reads."""
    data = {FILE_KEY: json.dumps(resource.document, indent=1) + "\n"}
    return new_object(CONFIG_MAPS, resource, file_name(resource), immutable=True, data=data)


def service(resource: PipelineResource) -> Manifest:
    """Return the Service by which hosts find each other, also before they are ready."""
    ports = [
        {"name": "frames", "port": PORT, "protocol": "TCP", "targetPort": PORT},
        {"name": "metrics", "port": PAGES_PORT, "protocol": "TCP", "targetPort": PAGES_PORT},
    ]
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {PIPELINE: resource.name},
        "ports": ports,
    }
    return new_object(SERVICES, resource, service_name(resource.name), spec=spec)


def network_policy(resource: PipelineResource) -> Manifest:
    """Return the policy by which only pods of the same Pipeline reach its hosts; the pages are open."""
    own = {"matchLabels": {PIPELINE: resource.name}}
    spec = {
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [{"podSelector": own}], "ports": [{"port": PORT, "protocol": "TCP"}]},
            {"ports": [{"port": PAGES_PORT, "protocol": "TCP"}]},
        ],
    }
    return new_object(NETWORK_POLICIES, resource, service_name(resource.name), spec=spec)
