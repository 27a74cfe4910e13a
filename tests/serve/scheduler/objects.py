"""Small objects of a small cluster, as the API server would send them."""

from typing import Any

import msgspec

from fairlead.cache import types as seen
from fairlead.cluster.kinds import Kind
from fairlead.manifest.types.dra import Slice
from fairlead.manifest.types.kubernetes import Node

GIB = 1 << 30


def read(kind: Kind[Any], document: dict[str, Any]) -> Any:
    """Return a document as an informer does."""
    return msgspec.convert(document, kind.type)


def node(name: str, version: int = 1, cpu: str = "4", **labels: str) -> Node:
    made: Node = read(
        seen.NODES,
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "resourceVersion": str(version),
                "labels": labels,
            },
            "status": {
                "allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "10", "fairlead.dev/gpu-mem": "8192"}
            },
        },
    )
    return made


def device_slice(
    name: str, version: int = 1, devices: int = 2, gib: int = 4, generation: int = 1, model: str = "t4"
) -> Slice:
    """Return the accelerators of a node."""
    listed = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": model}, "vendor": {"string": "NVIDIA"}},
            "capacity": {"memory": {"value": f"{gib}Gi"}},
            "allowMultipleAllocations": True,
        }
        for number in range(devices)
    ]
    pool = {"name": name, "generation": generation, "resourceSliceCount": 1}
    made: Slice = read(
        seen.SLICES,
        {
            "metadata": {"name": f"{name}-fairlead-0", "uid": f"s-{name}", "resourceVersion": str(version)},
            "spec": {"driver": "fairlead.dev", "nodeName": name, "pool": pool, "devices": listed},
        },
    )
    return made


def pod(
    name: str,
    version: int = 1,
    on: str = "",
    mib: int = 0,
    phase: str = "Pending",
    uid: str = "",
    notes: dict[str, str] | None = None,
    **spec: Any,
) -> seen.LivePod:
    """Return a pod; `mib` of an accelerator's memory."""
    asked = {"cpu": "100m", **({"fairlead.dev/gpu-mem": str(mib)} if mib else {})}
    made: seen.LivePod = read(
        seen.PODS,
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid or f"uid-{name}",
                "resourceVersion": str(version),
                "annotations": notes or {},
            },
            "spec": {
                "schedulerName": "fairlead",
                "nodeName": on,
                "containers": [{"name": "main", "resources": {"requests": asked}}],
                **spec,
            },
            "status": {"phase": phase},
        },
    )
    return made


def claim(name: str, user: seen.LivePod, on: str = "", version: int = 1, mib: int = 1024) -> seen.LiveClaim:
    """Return a claim that a scheduler created for a pod; `on` is a node, or it is not allocated yet."""
    result = {
        "driver": "fairlead.dev",
        "pool": on,
        "device": "gpu-0",
        "consumedCapacity": {"memory": f"{mib}Mi"},
    }
    reserved = [{"resource": "pods", "name": user.metadata.name, "uid": user.metadata.uid}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved} if on else {}
    owner = {"kind": "Pod", "name": user.metadata.name, "uid": user.metadata.uid, "controller": True}
    made: seen.LiveClaim = read(
        seen.CLAIMS,
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"c-{name}",
                "resourceVersion": str(version),
                "annotations": {seen.EXTENDED_RESOURCE_CLAIM: "true"},
                "ownerReferences": [owner],
            },
            "status": status,
        },
    )
    return made
