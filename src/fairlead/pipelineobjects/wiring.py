"""What joins the pods of a Pipeline: the file of the run, the headless Service, the NetworkPolicy. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from fairlead.keys import PIPELINE
from fairlead.ownedobjects.kinds import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from fairlead.pipelineobjects.names import PAGES_PORT, PORT, labels, service_name
from fairlead.pipelineobjects.resource import PipelineResource
from fairlead.reconcile import Manifest, ResourceKind

FILE_KEY: Final = "pipeline.yaml"


def new_object(kind: ResourceKind, resource: PipelineResource, name: str, **body: Any) -> dict[str, Any]:
    """Return an object of a Pipeline, with its labels."""
    meta = {"name": name, "namespace": resource.namespace, "labels": labels(resource.name)}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **body}


def file_name(pipeline: str) -> str:
    """Return the name of the ConfigMap with the file of the run, which changes while the run follows it."""
    return f"{pipeline}-file"


def file_text(document: Manifest) -> str:
    """Return a document as the coordinator reads it."""
    return json.dumps(document, indent=1) + "\n"


def file_map(resource: PipelineResource, data: Mapping[str, str]) -> Manifest:
    """Return the ConfigMap with the file that the coordinator reads, and what the operator knows of it."""
    return new_object(CONFIG_MAPS, resource, file_name(resource.name), data=dict(data))


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
