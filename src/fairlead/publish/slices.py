"""ResourceSlices: what claims can get of a node's accelerators, published for the scheduler."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairlead.host import printable
from fairlead.inventory import Accelerator, Inventory
from fairlead.keys import DIGEST
from fairlead.offer import DRIVER, Form, Holding
from fairlead.publish.labels import model_name
from fairlead.publish.parts import divisible, free_mebibytes, mebibytes

MOST_DEVICES: Final = 128
"""The most devices of one slice, where none has taints or counters."""
_LONGEST_NAME: Final = 253
_LONGEST_TEXT: Final = 64
_LARGEST: Final = 2**63 - 1
_MOST_RATES: Final = 16
"""The most rates, of the 32 attributes and capacities that a device may have."""
_OF_INSTANCE: Final = 2
"""Attributes that only a MIG instance has."""
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_WORD: Final = rf"({_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_WORD}(\.{_WORD})*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_BUS_ID: Final = re.compile(r"pci:([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


def slices(
    node: str, node_uid: str, inventory: Inventory, holdings: Iterable[Holding], generation: int
) -> list[dict[str, Any]]:
    """Return the slices of a node's pool; none where claims can get nothing.

    Accelerators that are not allocatable, and those that containers hold whole or to the last MiB, are left
    out. What claims hold is not subtracted: the scheduler does so itself. A server without consumable
    capacity drops those fields, and every accelerator goes to one claim at a time.
    """
    held: dict[str, list[Holding]] = {}
    for holding in holdings:
        if holding.form is not Form.CLAIM:
            held.setdefault(holding.accelerator, []).append(holding)
    ordered = sorted(inventory.accelerators, key=lambda acc: acc.id)
    candidates = [_device(acc, held.get(acc.id, [])) for acc in ordered]
    devices = [device for device in candidates if device is not None]
    groups = [devices[at : at + MOST_DEVICES] for at in range(0, len(devices), MOST_DEVICES)]
    pool = {"name": node, "generation": generation, "resourceSliceCount": len(groups)}
    return [_slice(node, node_uid, pool, number, group) for number, group in enumerate(groups)]


def spec_digest(body: Mapping[str, Any]) -> str:
    """Return a short digest of a slice's content, without its generation."""
    spec = {**body["spec"], "pool": {**body["spec"]["pool"], "generation": 0}}
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:32]


def _slice(
    node: str, node_uid: str, pool: Mapping[str, Any], number: int, devices: list[dict[str, Any]]
) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
    body: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": _name(node, number)},
        "spec": {"driver": DRIVER, "pool": dict(pool), "nodeName": node, "devices": devices},
    }
    body["metadata"]["annotations"] = {DIGEST: spec_digest(body)}
    if node_uid:
        body["metadata"]["ownerReferences"] = [owner]
    return body


def _name(node: str, number: int) -> str:
    end = f"-fairlead-{number}"
    if len(node) + len(end) > _LONGEST_NAME:
        end = f"-{hashlib.sha256(node.encode()).hexdigest()[:8]}{end}"
        node = node[: _LONGEST_NAME - len(end)].rstrip(".-")
    return f"{node}{end}"


def _device(acc: Accelerator, mine: list[Holding]) -> dict[str, Any] | None:
    """Return an accelerator as a device of a slice; None where claims can get nothing of it."""
    if acc.kind == "cpu" or not acc.state.allocatable or any(each.form is Form.WHOLE for each in mine):
        return None
    device: dict[str, Any] = {"name": acc.id, "attributes": _attributes(acc)}
    total = mebibytes(acc)
    if not divisible(acc):
        capacity = {"memory": {"value": _quantity(total)}} if total else {}
        return {**device, "capacity": capacity} if capacity else device
    left = free_mebibytes(acc, mine)
    if not left:
        return None
    memory = {"value": _quantity(left), "requestPolicy": _policy(left)}
    return {**device, "allowMultipleAllocations": True, "capacity": {"memory": memory}}


def _policy(left: int) -> dict[str, Any]:
    """Return the amounts that a claim may request: any number of MiB, by default all that is left.

    The API requires room for at least one step above the minimum; where there is none, a step is useless.
    """
    steps = {"step": "1Mi"} if left > 1 else {}
    return {"default": _quantity(left), "validRange": {"min": "1Mi", **steps}}


def _quantity(mib: int) -> str:
    """Return an amount of memory in the API server's canonical form, so that the two can be compared."""
    suffixes = ["Mi", "Gi", "Ti", "Pi", "Ei"]
    while mib and mib % 1024 == 0 and len(suffixes) > 1:
        mib //= 1024
        del suffixes[0]
    return f"{mib}{suffixes[0]}"


def _attributes(acc: Accelerator) -> dict[str, dict[str, Any]]:
    texts = {
        "model": model_name(acc),
        "name": acc.name,
        "vendor": acc.vendor,
        "kind": acc.kind,
        "state": acc.state.value,
        "driver": acc.driver,
        "product": acc.product,
        "uuid": acc.uuid,
        "bus": acc.bus,
        # As NVIDIA's own DRA driver names them, so that one selector matches both drivers' instances.
        **({"profile": acc.mig.profile, "parentUUID": acc.mig.parent_uuid} if acc.mig else {}),
    }
    attributes: dict[str, dict[str, Any]] = {
        name: {"string": clean} for name, text in texts.items() if (clean := _text(text or ""))
    }
    attributes["unifiedMemory"] = {"bool": acc.unified_memory}
    attributes["shareable"] = {"bool": acc.shareable}
    version = _text(acc.driver_version or "")
    if version:
        attributes["driverVersion"] = {"version" if _SEMVER.fullmatch(version) else "string": version}
    if bus := _BUS_ID.fullmatch(acc.bus):
        attributes["resource.kubernetes.io/pciBusID"] = {"string": bus[1]}
    if acc.power is not None:
        attributes["powerMilliwatts"] = {"int": _integer(acc.power * 1e3)}
    return attributes | _rates(acc)


def _rates(acc: Accelerator) -> dict[str, dict[str, Any]]:
    """Return the current rates in billions of operations a second; dense ones first, up to the limit."""
    most = _MOST_RATES - (_OF_INSTANCE if acc.mig else 0)
    dense_first = sorted(acc.effective, key=lambda precision: "-" in precision)[:most]
    return {
        f"{_camel_case(precision)}Gops": {"int": _integer(acc.effective[precision] / 1e9)}
        for precision in dense_first
    }


def _camel_case(precision: str) -> str:
    """Return `fp16-sparse` as `fp16Sparse`: names of attributes have no dashes."""
    first, *more = precision.split("-")
    return first + "".join(word.capitalize() for word in more)


def _integer(number: float) -> int:
    return min(round(number), _LARGEST)


def _text(text: str) -> str:
    """Return a text that the API accepts: printable, and at most 64 bytes."""
    return printable(text).encode()[:_LONGEST_TEXT].decode(errors="ignore").strip()
