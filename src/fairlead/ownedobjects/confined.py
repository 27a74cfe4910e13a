"""Pods without privileges: a fixed user, a read-only root, no capabilities; and their shares. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairlead.keys import COMPUTE, COUNT, GPU_MEM, MODELS
from fairlead.units import parse_bytes

USER: Final = 10001
_AWAY: Final = 30
"""Seconds after which pods leave a node that is lost."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AcceleratorShare:
    """What a pod takes of accelerators."""

    memory: str
    """Of each, such as `2Gi`."""
    compute: int | None = None
    """Percent of each accelerator's compute; None: no limit."""
    count: int = 1


def pod_security(user: int = USER) -> Json:
    """Return the security context of a pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security(*, has_writable_root: bool = False) -> Json:
    """Return the security context of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": not has_writable_root,
        "capabilities": {"drop": ["ALL"]},
    }


def leave_lost_nodes() -> list[Json]:
    """Return the tolerations by which a pod stays on a node that is lost for a while only."""
    return [
        {
            "key": f"node.kubernetes.io/{what}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _AWAY,
        }
        for what in ("not-ready", "unreachable")
    ]


def resources_of(asked: Mapping[str, Any], least: Mapping[str, str], share: AcceleratorShare | None) -> Json:
    """Return what a container requests and may use: what is asked, at least something, and its share."""
    limits = dict(asked.get("limits") or {})
    requests = dict(asked.get("requests") or {})
    for name, amount in least.items():
        if name not in requests and name not in limits:
            requests[name] = amount
    if share is not None:
        mebibytes = str(-(-parse_bytes(share.memory) // (1 << 20)))
        limits[GPU_MEM] = requests[GPU_MEM] = mebibytes
    return {"requests": requests} | ({"limits": limits} if limits else {})


def share_annotations(share: AcceleratorShare | None, device_class: str = "") -> dict[str, str]:
    """Return the annotations of a pod that say what its share is like."""
    if share is None:
        return {}
    annotations = {MODELS: device_class} if device_class else {}
    annotations |= {COMPUTE: f"{share.compute}%"} if share.compute is not None else {}
    return annotations | ({COUNT: str(share.count)} if share.count > 1 else {})
