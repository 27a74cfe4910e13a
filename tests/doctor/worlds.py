"""Small clusters as the doctor reads them, and a server in memory."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import structs

from fairlead.cluster.objects import Lease, Node
from fairlead.cluster.times import format_micro, format_time
from fairlead.compat.times import UTC
from fairlead.doctor.read import ServerInfo
from fairlead.doctor.view import AccessRule, ClusterView, Pod, PodStatus
from fairlead.keys import PLACEMENT
from fairlead.manifest.types.dra import Slice
from fairlead.manifest.types.kubernetes import PriorityClass
from fairlead.manifest.types.live import EXTENDED_RESOURCE_CLAIM, LiveClaim
from fairlead.placement import PLACEMENTS
from fairlead.share import DeviceShare

NOW = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
GPU = "pci-0000-3b-00-0"
MODEL = "t4"


def ago(seconds: float) -> str:
    return format_time(NOW - timedelta(seconds=seconds))


def node(
    name: str = "box",
    mebibytes: int = 4096,
    has: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Node:
    """Return a node with one GPU that its agent has labelled."""
    labels = {
        f"fairlead.dev/{MODEL}.count": "1",
        f"fairlead.dev/{MODEL}.kind": "gpu",
        f"fairlead.dev/{MODEL}.memory-mib": str(mebibytes),
    }
    document = {
        "metadata": {"name": name, "labels": labels, "annotations": dict(annotations or {})},
        "status": {"allocatable": {"fairlead.dev/gpu-mem": str(mebibytes), **(has or {})}},
    }
    return msgspec.convert(document, Node)


def labelled(count: int = 1, usable: int = 1, listed: Sequence[str] = (), held: Sequence[str] = ()) -> Node:
    """Return the node `box`: GPUs by its labels, devices that its agent lists, and devices in use."""
    base = node()
    labels = {**base.metadata.labels, f"fairlead.dev/{MODEL}.count": str(count)}
    labels[f"fairlead.dev/{MODEL}.usable"] = str(usable)
    rows = [{"id": each, "model": MODEL, "vendor": "NVIDIA", "memory_mib": 4096} for each in listed]
    annotations = {"fairlead.dev/devices": json.dumps({"version": 1, "accelerators": rows})} if rows else {}
    holders = {each: {"whole": {"a/b/c": 0}} for each in held}
    annotations |= {"fairlead.dev/allocated": json.dumps({"version": 1, "accelerators": holders})}
    return structs.replace(
        base, metadata=structs.replace(base.metadata, labels=labels, annotations=annotations)
    )


def bare(name: str, labels: Mapping[str, str]) -> Node:
    """Return a node without labels or resources of ours."""
    return msgspec.convert({"metadata": {"name": name, "labels": dict(labels)}}, Node)


def device_slice(at: str = "box", generation: int = 1, mebibytes: int = 4096, **changes: Any) -> Slice:
    """Return the slice of a node's agent, or of another driver."""
    device = {
        "name": GPU,
        "attributes": {"model": {"string": MODEL}, "shareable": {"bool": True}},
        "capacity": {"memory": {"value": f"{mebibytes}Mi"}},
        "allowMultipleAllocations": True,
    }
    spec = {
        "driver": "fairlead.dev",
        "nodeName": at,
        "pool": {"name": at, "generation": generation, "resourceSliceCount": 1},
        "devices": [{**device, **changes.pop("device", {})}],
        **changes,
    }
    return msgspec.convert({"metadata": {"name": f"{at}-{generation}"}, "spec": spec}, Slice)


def pod(name: str, at: str = "", asks: Mapping[str, str] | None = None, **more: Any) -> Pod:
    """Return a pod that is an hour old; without a node it is pending."""
    document = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": more.pop("born", ago(3600)),
            "labels": more.pop("labels", {}),
            "annotations": more.pop("annotations", {}),
        },
        "spec": {
            "nodeName": at,
            "schedulerName": "fairlead",
            "containers": [{"name": "main", "resources": {"limits": dict(asks or {})}}],
            **more.pop("spec", {}),
        },
        "status": {"phase": "Running" if at else "Pending", **more.pop("status", {})},
    }
    assert not more
    return msgspec.convert(document, Pod)


def share(name: str, mebibytes: int, at: str = "box", *, whole: bool = False) -> Pod:
    """Return a pod whose annotation places it on part of the GPU, or on all of it."""
    placed = DeviceShare(GPU, whole=True) if whole else DeviceShare(GPU, memory=mebibytes << 20)  # type: ignore[arg-type]  # bytes
    annotations = {PLACEMENT: PLACEMENTS.encode((placed,))}
    return pod(name, at, {"fairlead.dev/gpu-mem": str(mebibytes)}, annotations=annotations)


def program(component: str, at: str, number: int = 0, *, ready: bool = True, version: str = "0.1.0") -> Pod:
    """Return a pod of one of our programs."""
    labels = {
        "app.kubernetes.io/name": "fairlead",
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/version": version,
    }
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    spec = {"schedulerName": "default-scheduler", "serviceAccountName": f"fairlead-{component}"}
    return pod(f"{component}-{at}-{number}", at, labels=labels, spec=spec, status={"conditions": conditions})


def crashed(component: str, at: str, **status: Any) -> Pod:
    """Return a pod of one of our programs with its container in this state."""
    base = program(component, at, ready=False)
    named = msgspec.convert({"containerStatuses": [{"name": component, **status}]}, PodStatus)
    return msgspec.structs.replace(base, status=named)


def claim(name: str, mebibytes: int, user: str, *, own: bool = False, born: str = "") -> LiveClaim:
    """Return a claim with part of the GPU allocated, or, with 0, all of it."""
    result: dict[str, Any] = {"driver": "fairlead.dev", "pool": "box", "device": GPU}
    if mebibytes:
        result["consumedCapacity"] = {"memory": f"{mebibytes}Mi"}
    document = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "creationTimestamp": born or ago(3600),
            "annotations": {EXTENDED_RESOURCE_CLAIM: "true"} if own else {},
        },
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": user, "uid": user}],
        },
    }
    return msgspec.convert(document, LiveClaim)


def lease(
    holder: str = "one",
    seconds: float = 2.0,
    namespace: str = "fairlead-system",
    annotations: Mapping[str, str] | None = None,
) -> Lease:
    """Return the lease of the scheduler, renewed `seconds` ago."""
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "renewTime": format_micro(NOW - timedelta(seconds=seconds)),
    }
    meta = {"name": "fairlead-scheduler", "namespace": namespace, "annotations": dict(annotations or {})}
    return msgspec.convert({"metadata": meta, "spec": spec}, Lease)


def priority(name: str) -> PriorityClass:
    return msgspec.convert({"metadata": {"name": name}, "value": 1}, PriorityClass)


def healthy(**changes: Any) -> ClusterView:
    """Return a view of a healthy cluster, with changes."""
    view = {
        "version": (1, 37),
        "user": "admin",
        "now": NOW,
        "nodes": (node(), node("other")),
        "slices": (device_slice(), device_slice("other")),
        "pods": (
            *(program("agent", at) for at in ("box", "other")),
            *(program("scheduler", at) for at in ("box", "other")),
            share("small", 1024),
            pod("claims", "box"),
        ),
        "claims": (claim("mine", 2048, "claims"),),
        "leases": (lease(),),
        **changes,
    }
    return ClusterView(**view)


@dataclass(frozen=True, slots=True)
class FakeServer:
    """A server with this version and time, which refuses these rights."""

    refuses: frozenset[tuple[str, str]] = frozenset()
    version: tuple[int, int] = (1, 37)
    now: datetime = NOW

    async def server_info(self) -> ServerInfo:
        return ServerInfo(self.version, "admin", self.now)

    async def allows(self, right: AccessRule) -> bool:
        return (right.verb, right.resource) not in self.refuses
