"""Specs of the Container Device Interface: how a runtime edits a container that gets a device.

Device nodes and environment, and for a claim that is limited the folder of its MPS daemon: no hooks and no
other mounts, so that the warden can check a spec strictly.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from fairlead.offer import DRIVER, DeviceNode, FolderMount, Grant

ACCELERATOR: Final = f"{DRIVER}/accelerator"
"""The kind of the accelerators: their device nodes, the same for every container that gets one."""
CLAIM: Final = f"{DRIVER}/claim"
"""The kind of claims: how much of which accelerator, in the environment."""
_MOUNT_OPTIONS: Final = ("ro", "nosuid", "nodev", "noexec", "bind")
"""The only options that the warden allows."""
_LOWEST, _WITH_HOST_PATH = "0.3.0", "0.5.0"
"""Versions of the specification: the lowest that runtimes read, and the one that brought `hostPath`."""


def accelerator_device(accelerator: str) -> str:
    """Return the full name of an accelerator's device."""
    return f"{ACCELERATOR}={accelerator}"


def claim_device(uid: str, entry: str) -> str:
    """Return the full name of the device that stands for one entry of a claim."""
    return f"{CLAIM}={_claim_name(uid, entry)}"


def accelerators_spec(grants: Mapping[str, Grant]) -> dict[str, Any]:
    """Return the CDI spec of a node's accelerators.

    A container may get several, and each would overwrite the environment of the one before. So each has a
    variable of its own; variables about all of them come with the allocation, or the claim.
    """
    return _document(
        ACCELERATOR,
        {
            name: {
                "env": [f"FAIRLEAD_ACCELERATOR_{_word(name)}={grant.env.get('FAIRLEAD_MODEL', '')}"],
                **({"deviceNodes": [_node(node) for node in grant.nodes]} if grant.nodes else {}),
            }
            for name, grant in grants.items()
        },
    )


def claim_spec(uid: str, entries: Mapping[str, Grant]) -> dict[str, Any]:
    """Return the CDI spec of a claim: one device for each entry, with its environment and its mounts.

    The nodes come with the accelerators' own devices, which the container gets as well.
    """
    return _document(
        CLAIM,
        {
            _claim_name(uid, entry): {
                "env": [f"{name}={value}" for name, value in sorted(grant.env.items())],
                **({"mounts": [_mount(mount) for mount in grant.mounts]} if grant.mounts else {}),
            }
            for entry, grant in entries.items()
        },
    )


def canonical(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a spec: the same bytes for the same content."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def digest(document: Mapping[str, Any]) -> str:
    """Return a short digest of a spec's content."""
    return hashlib.sha256(canonical(document)).hexdigest()[:32]


def _document(kind: str, edits: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    devices = [{"name": name, "containerEdits": edits[name]} for name in sorted(edits)]
    with_host_path = any(
        "hostPath" in node for edit in edits.values() for node in edit.get("deviceNodes", ())
    )
    return {"cdiVersion": _WITH_HOST_PATH if with_host_path else _LOWEST, "kind": kind, "devices": devices}


def _node(node: DeviceNode) -> dict[str, Any]:
    explicit = node.major is not None and node.minor is not None
    return {
        "path": node.path,
        **({"hostPath": node.host} if node.host != node.path else {}),
        **({"type": "c", "major": node.major, "minor": node.minor} if explicit else {}),
        "permissions": "rw",
    }


def _mount(mount: FolderMount) -> dict[str, Any]:
    return {"hostPath": mount.host, "containerPath": mount.path, "options": list(_MOUNT_OPTIONS)}


def _claim_name(uid: str, entry: str) -> str:
    """Return a name that begins with a letter, as the lowest CDI version requires."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"claim-{uid}-{entry}").strip("-_.")


def _word(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper())
