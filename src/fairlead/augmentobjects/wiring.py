"""What joins the pods of an Augmentation and its device: settings, Services, the NetworkPolicy. Pure."""

from collections.abc import Mapping
from typing import Any

from fairlead.augmentobjects.names import (
    APPLICATION,
    METRICS_PORT,
    PORT,
    STORE,
    application_name,
    new_object,
    settings_name,
    store_name,
)
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.keys import AUGMENTATION, AUGMENTATION_PART
from fairlead.ownedobjects.kinds import CONFIG_MAPS, NETWORK_POLICIES, SERVICES
from fairlead.reconcile import Manifest

Json = dict[str, Any]


def settings_map(resource: AugmentationResource, data: Mapping[str, str]) -> Json:
    """Return the ConfigMap with what the store reads again when it changes."""
    return new_object(
        CONFIG_MAPS, resource.namespace, resource.name, settings_name(resource.name), data=dict(data)
    )


def services(resource: AugmentationResource) -> tuple[Json, ...]:
    """Return the Service of the store, and that of the application where it listens."""
    asked = resource.exposure
    port: Json = {"name": STORE, "port": PORT, "protocol": "TCP", "targetPort": STORE}
    port |= {"nodePort": asked.node_port} if asked.node_port else {}
    spec = {"type": asked.type, "selector": _pods(resource, STORE), "ports": [port]}
    found = [_service(resource, store_name(resource.name), spec)]
    if resource.application is not None and resource.application.ports:
        ports = [
            {"name": f"port-{each}", "port": each, "protocol": "TCP", "targetPort": each}
            for each in resource.application.ports
        ]
        spec = {"type": "ClusterIP", "selector": _pods(resource, APPLICATION), "ports": ports}
        found.append(_service(resource, application_name(resource.name), spec))
    return tuple(found)


def network_policy(resource: AugmentationResource) -> Json:
    """Return the policy by which only the ports of the store and those of the application are reached."""
    ports = [PORT, METRICS_PORT, *(resource.application.ports if resource.application is not None else ())]
    spec = {
        "podSelector": {"matchLabels": {AUGMENTATION: resource.name}},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": port, "protocol": "TCP"} for port in dict.fromkeys(ports)]}],
    }
    return new_object(
        NETWORK_POLICIES, resource.namespace, resource.name, store_name(resource.name), spec=spec
    )


def url_of(
    resource: AugmentationResource, service: Manifest | None, addresses: Mapping[str, str], node: str
) -> str:
    """Return where a device reaches the store; empty: it is not known yet.

    `addresses` are those of the cluster's nodes, `node` the one that the store is on.
    """
    if service is None:
        return ""
    asked, spec = resource.exposure, service.get("spec") or {}
    host = asked.hosts[0] if asked.hosts else ""
    if asked.type == "ClusterIP":
        inside = f"{store_name(resource.name)}.{resource.namespace}.svc"
        return f"https://{host or inside}:{PORT}"
    if asked.type == "LoadBalancer":
        ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or [{}]
        host = host or ingress[0].get("ip") or ingress[0].get("hostname") or ""
        return f"https://{host}:{PORT}" if host else ""
    port = next((each.get("nodePort") for each in spec.get("ports") or ()), None)
    host = host or addresses.get(node, "")
    return f"https://{host}:{port}" if host and port else ""


def _service(resource: AugmentationResource, name: str, spec: Json) -> Json:
    return new_object(SERVICES, resource.namespace, resource.name, name, spec=spec)


def _pods(resource: AugmentationResource, part: str) -> dict[str, str]:
    return {AUGMENTATION: resource.name, AUGMENTATION_PART: part}
