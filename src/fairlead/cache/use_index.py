"""What a source of measured use must know of the cluster: accelerators, pods, and where agents answer."""

from collections.abc import Iterator
from typing import Final

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import LivePod
from fairlead.usage.agents import AgentTarget
from fairlead.usage.index import DeviceIndex, KnownDevice
from fairlead.use import DeviceKey

AGENT_LABELS: Final = {"app.kubernetes.io/name": "fairlead", "app.kubernetes.io/component": "agent"}
_PORT: Final = 19809
"""The port of an agent's metrics, where its pod names none."""


def device_index(cache: SchedulerCache, namespace: str) -> DeviceIndex:
    """Return the accelerators of the cluster, the pods that hold shares of them, and where agents run."""
    nodes = cache.cluster.nodes()
    devices = [
        KnownDevice(DeviceKey(node.name, device.id), vendor=device.vendor, memory=device.memory)
        for node in nodes
        for device in node.devices
    ]
    hosts = {}
    for name in (node.name for node in nodes):
        live = cache.node(name)
        for address in live.status.addresses if live is not None else ():
            hosts[address.address] = name
    hosts |= {pod.status.pod_ip: pod.spec.node_name for pod in _agents(cache, namespace) if pod.status.pod_ip}
    holders = (each.request for each in cache.cluster.placements() if each.shares)
    pods = {(request.namespace, request.name): request.id for request in holders}
    return DeviceIndex(devices, hosts, pods)


def agent_targets(cache: SchedulerCache, namespace: str, *, secure: bool = False) -> list[AgentTarget]:
    """Return the metrics page of every agent in a namespace; `secure`: over TLS."""
    scheme = "https" if secure else "http"
    return [
        AgentTarget(pod.spec.node_name, f"{scheme}://{_host(pod.status.pod_ip)}:{_port(pod)}/metrics")
        for pod in _agents(cache, namespace)
        if pod.status.pod_ip
    ]


def _agents(cache: SchedulerCache, namespace: str) -> Iterator[LivePod]:
    """Yield the agents' pods: those of the chart's namespace, in which tenants create none."""
    for node in cache.cluster.nodes():
        for pod in cache.pods_on(node.name):
            if pod.metadata.namespace == namespace and AGENT_LABELS.items() <= pod.metadata.labels.items():
                yield pod


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _port(pod: LivePod) -> int:
    ports = [port.container_port for container in pod.spec.containers for port in container.ports]
    return next((port for port in ports if port), _PORT)
