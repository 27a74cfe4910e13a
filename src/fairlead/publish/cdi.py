"""Documents of the Container Device Interface: what a runtime does to a container that is given a device.

Device nodes and environment only: no hooks and no mounts, so that whoever checks a document can be strict.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from fairlead.offer import DRIVER, DeviceNode, Grant

ACCELERATOR: Final = f"{DRIVER}/accelerator"
"""The kind of the accelerators: their device nodes, the same for everyone who is given one."""
CLAIM: Final = f"{DRIVER}/claim"
"""The kind of what claims were given: how much of which, in the environment."""
_LOWEST, _WITH_HOST_PATH = "0.3.0", "0.5.0"
"""Versions of the specification: the lowest that runtimes read, and the one that brought `hostPath`."""


def accelerator_device(accelerator: str) -> str:
    """Return the full name of an accelerator's device."""
    return f"{ACCELERATOR}={accelerator}"


def claim_device(uid: str, entry: str) -> str:
    """Return the full name of the device that stands for one entry of a claim."""
    return f"{CLAIM}={_claim_name(uid, entry)}"


def accelerators_spec(grants: Mapping[str, Grant]) -> dict[str, Any]:
    """Return the document of a node's accelerators.

    A container may be given several, and what one says in the environment the next one would overwrite. So
    each speaks in a variable of its own; what they say together goes with the allocation, or the claim.
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
    """Return the document of a claim: one device for each entry, with its environment.

    The nodes come with the accelerators' own devices, which a container is given besides.
    """
    return _document(
        CLAIM,
        {
            _claim_name(uid, entry): {"env": [f"{name}={value}" for name, value in sorted(grant.env.items())]}
            for entry, grant in entries.items()
        },
    )


def canonical(document: Mapping[str, Any]) -> bytes:
    """Return a document as it is written: the same bytes for the same content."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def digest(document: Mapping[str, Any]) -> str:
    """Return a short name of a document's content."""
    return hashlib.sha256(canonical(document)).hexdigest()[:32]


def _document(kind: str, edits: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    devices = [{"name": name, "containerEdits": edits[name]} for name in sorted(edits)]
    apart = any("hostPath" in node for edit in edits.values() for node in edit.get("deviceNodes", ()))
    return {"cdiVersion": _WITH_HOST_PATH if apart else _LOWEST, "kind": kind, "devices": devices}


def _node(node: DeviceNode) -> dict[str, Any]:
    explicit = node.major is not None and node.minor is not None
    return {
        "path": node.path,
        **({"hostPath": node.host} if node.host != node.path else {}),
        **({"type": "c", "major": node.major, "minor": node.minor} if explicit else {}),
        "permissions": "rw",
    }


def _claim_name(uid: str, entry: str) -> str:
    """Return a name that begins with a letter, as the lowest version wants it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"claim-{uid}-{entry}").strip("-_.")


def _word(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper())
