"""The check of a CDI spec: the first content that is not allowed, and where.

The warden never writes the received bytes, but its own rendering of the checked content.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from fairlead.warden import rules

USB_MAJOR: Final = 189
NOT_OURS: Final = "not a file name of ours (fairlead.dev-accelerators.json, fairlead.dev-claim-<uid>.json)"
_SHOWN: Final = 80

DeviceCheck = Callable[[str], str | None]
"""Returns the fault of a device node of this machine; None without one."""
TogetherCheck = Callable[[Sequence[str]], str | None]
"""Returns why the nodes of one device may not be granted together; None where they may."""


def violation(
    file: str,
    spec: Any,
    root: str,
    check_device: DeviceCheck,
    check_together: TogetherCheck = lambda paths: None,
) -> str | None:
    """Return which rule forbids this spec in a file of this name, and where; None without a violation."""
    kind = rules.kind_of(file)
    if kind is None:
        return NOT_OURS
    return (
        _keys("", spec, ("cdiVersion", "kind", "devices"), ("cdiVersion", "kind", "devices"))
        or _choice("cdiVersion", spec["cdiVersion"], rules.VERSIONS)
        or _choice("kind", spec["kind"], (kind,))
        or _list("devices", spec["devices"], rules.DEVICE_LIMIT, least=1)
        or _first(
            _device(f"devices[{i}]", each, root, check_device) for i, each in enumerate(spec["devices"])
        )
        or _first(_mounts(f"devices[{i}]", each, file) for i, each in enumerate(spec["devices"]))
        or _first(_together(f"devices[{i}]", each, check_together) for i, each in enumerate(spec["devices"]))
        or _duplicate(spec["devices"])
    )


def render(spec: Any) -> bytes:
    """Return the bytes of a checked spec.

    Omitted fields are filled in: else a runtime would let the container create nodes as well (`rwm`), and
    would accept a block device for a character device, had the node changed since the check.
    """
    devices = [
        {**device, "containerEdits": _edits_filled(device["containerEdits"])} for device in spec["devices"]
    ]
    text = json.dumps({**spec, "devices": devices}, sort_keys=True, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def quote(text: Any) -> str:
    """Return untrusted input as a short text for a line of a log."""
    if isinstance(text, list | dict):  # may be nested as deep as the stack
        return "a list" if isinstance(text, list) else "an object"
    plain = ascii(text)
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}..."


def _edits_filled(edits: Any) -> dict[str, Any]:
    nodes = [{"type": "c", "permissions": "rw", **node} for node in edits.get("deviceNodes", ())]
    return {**edits, "deviceNodes": nodes} if nodes else dict(edits)


def _device(where: str, device: Any, root: str, check_device: DeviceCheck) -> str | None:
    edits = f"{where}.containerEdits"
    return (
        _keys(where, device, ("name", "containerEdits"), ("name", "containerEdits"))
        or _name(f"{where}.name", device["name"])
        or _keys(edits, device["containerEdits"], ("env", "deviceNodes", "mounts"))
        or (None if any(device["containerEdits"].values()) else f"{edits}: must name something")
        or _env(f"{edits}.env", device["containerEdits"].get("env", []))
        or _nodes(f"{edits}.deviceNodes", device["containerEdits"].get("deviceNodes", []), root, check_device)
    )


def _mounts(where: str, device: Any, file: str) -> str | None:
    """Return the fault of mounts: a claim may have one, the sockets of its own MPS daemon, and no other."""
    edits, place = device["containerEdits"], f"{where}.containerEdits.mounts"
    if "mounts" not in edits:
        return None
    host = rules.claim_mount(file)
    if host is None:
        return f"{place}: not allowed"
    fields = ("hostPath", "containerPath", "options")
    return _list(place, edits["mounts"], 1, least=1) or _first(
        _keys(f"{place}[{i}]", mount, fields, fields)
        or _choice(f"{place}[{i}].hostPath", mount["hostPath"], (host,))
        or _choice(f"{place}[{i}].containerPath", mount["containerPath"], (rules.MPS_PIPE,))
        or _options(f"{place}[{i}].options", mount["options"])
        for i, mount in enumerate(edits["mounts"])
    )


def _options(where: str, options: Any) -> str | None:
    wanted = list(rules.MOUNT_OPTIONS)
    return None if options == wanted else f"{where}: only {', '.join(wanted)} are allowed, in this order"


def _together(where: str, device: Any, check_together: TogetherCheck) -> str | None:
    nodes = device["containerEdits"].get("deviceNodes", [])
    fault = check_together([node["path"] for node in nodes])
    return f"{where}.containerEdits.deviceNodes: {fault}" if fault else None


def _name(where: str, name: Any) -> str | None:
    good = isinstance(name, str) and rules.DEVICE_NAME.fullmatch(name)
    return None if good else f"{where}: {quote(name)} is not a name that CDI allows"


def _env(where: str, env: Any) -> str | None:
    return _list(where, env, rules.ENV_LIMIT) or _first(
        _setting(f"{where}[{i}]", each) for i, each in enumerate(env)
    )


def _setting(where: str, setting: Any) -> str | None:
    if not isinstance(setting, str):
        return f"{where}: must be a string"
    fault = rules.env_fault(setting)
    return f"{where}: {quote(setting)}: {fault}" if fault else None


def _nodes(where: str, nodes: Any, root: str, check_device: DeviceCheck) -> str | None:
    return _list(where, nodes, rules.NODE_LIMIT) or _first(
        _node(f"{where}[{i}]", each, root, check_device) for i, each in enumerate(nodes)
    )


def _node(where: str, node: Any, root: str, check_device: DeviceCheck) -> str | None:
    return (
        _keys(where, node, ("path", "hostPath", "type", "major", "minor", "permissions"), ("path",))
        or _path(f"{where}.path", node["path"])
        or _choice(
            f"{where}.hostPath", node.get("hostPath", node["path"]), (node["path"], root + node["path"])
        )
        or _choice(f"{where}.type", node.get("type", "c"), ("c",))
        or _choice(f"{where}.permissions", node.get("permissions", "rw"), ("r", "w", "rw", "wr"))
        or _numbers(where, node)
        or _existing_node(f"{where}.path", node["path"], check_device)
    )


def _path(where: str, path: Any) -> str | None:
    if not isinstance(path, str):
        return f"{where}: must be a string"
    fault = rules.node_fault(path)
    return f"{where}: {quote(path)}: {fault}" if fault else None


def _numbers(where: str, node: Any) -> str | None:
    """Return the fault of major and minor: they bypass the file system, so they must follow from the path."""
    if "major" not in node and "minor" not in node:
        return None
    address = rules.usb_address(node["path"])
    if address is None:
        return f"{where}: major and minor are allowed for USB devices only"
    return _choice(f"{where}.major", node.get("major"), (USB_MAJOR,)) or _choice(
        f"{where}.minor", node.get("minor"), (rules.usb_minor(*address),)
    )


def _existing_node(where: str, path: str, check_device: DeviceCheck) -> str | None:
    fault = check_device(path)
    return f"{where}: {quote(path)}: {fault}" if fault else None


def _keys(where: str, value: Any, known: tuple[str, ...], needed: tuple[str, ...] = ()) -> str | None:
    if not isinstance(value, dict):
        return f"{where or 'spec'}: must be an object"
    prefix = f"{where}." if where else ""
    for key in value:
        if key not in known:
            return f"{prefix}{_key(key)}: not allowed"
    return next((f"{prefix}{key}: missing" for key in needed if key not in value), None)


def _key(key: str) -> str:
    return key if key.isascii() and key.isalnum() and len(key) <= _SHOWN else quote(key)


def _list(where: str, value: Any, most: int, *, least: int = 0) -> str | None:
    if not isinstance(value, list):
        return f"{where}: must be a list"
    if len(value) < least:
        return f"{where}: must not be empty (remove the file instead)"
    return f"{where}: {len(value)} are too many, at most {most}" if len(value) > most else None


def _choice(where: str, value: Any, choices: tuple[object, ...]) -> str | None:
    # By type as well: True is 1, and 189.0 is 189, in Python but not for the readers of the file.
    if any(type(value) is type(choice) and value == choice for choice in choices):
        return None
    return f"{where}: {quote(value)} is not allowed, only {' or '.join(map(ascii, dict.fromkeys(choices)))}"


def _duplicate(devices: Any) -> str | None:
    seen: set[str] = set()
    for i, device in enumerate(devices):
        if device["name"] in seen:
            return f"devices[{i}].name: {quote(device['name'])} is named twice"
        seen.add(device["name"])
    return None


def _first(faults: Iterable[str | None]) -> str | None:
    return next(filter(None, faults), None)
