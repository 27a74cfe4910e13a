"""A small cluster with workloads of every kind and spelling, as kubectl prints it."""

from typing import Any

NODE_MEMORY = 16
"""GiB of the only accelerator of each node."""


def node(name: str = "box", memory: int = NODE_MEMORY) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", "fairlead.dev/gpu-mem": str(memory * 1024)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def slice_of(name: str = "box", memory: int = NODE_MEMORY) -> dict[str, Any]:
    attributes = {"model": {"string": "t4"}, "vendor": {"string": "NVIDIA"}, "shareable": {"bool": True}}
    device = {
        "name": "pci-0000-3b-00-0",
        "attributes": attributes,
        "capacity": {"memory": {"value": f"{memory}Gi"}},
        "allowMultipleAllocations": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-fairlead"},
        "spec": {
            "driver": "fairlead.dev",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [device],
        },
    }


def container(name: str = "main", **limits: str) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {key: limits[key] for key in limits}}}


def pod(
    name: str, owner: tuple[str, str] = ("", ""), *containers: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Return a running pod; `more` are fields of its metadata, and `status` and `spec`."""
    spec, status = more.pop("spec", {}), more.pop("status", {"phase": "Running"})
    kind, owner_name = owner
    owners = (
        [{"kind": kind, "name": owner_name, "controller": True, "uid": "u", "apiVersion": "v1"}]
        if kind
        else []
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-17T12:00:00Z",
            "ownerReferences": owners,
            **more,
        },
        "spec": {"nodeName": "box", "containers": list(containers) or [container()], **spec},
        "status": status,
    }


def job(name: str, cron_job: str) -> dict[str, Any]:
    owners = [{"kind": "CronJob", "name": cron_job, "controller": True, "uid": "u", "apiVersion": "batch/v1"}]
    metadata = {"name": name, "namespace": "shop", "ownerReferences": owners}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}}


def crashed(name: str, message: str, exit_code: int = 1) -> dict[str, Any]:
    """Return the status of a pod with a container that ended and runs again."""
    last = {"terminated": {"exitCode": exit_code, "message": message, "reason": "Error"}}
    return {
        "phase": "Running",
        "containerStatuses": [{"name": name, "restartCount": 1, "lastState": last}],
    }


def everything(*objects: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": [node(), slice_of(), *objects]}
