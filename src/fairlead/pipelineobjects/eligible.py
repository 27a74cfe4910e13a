"""Which hosts of a Pipeline have a node now, and how much memory their stages may take there. Pure.

What other pods request of CPU and memory is the scheduler's to count: a host is out only where no node could
ever hold its pod, or where agents have published that its share of accelerators is not free.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from fairlead.annotations import ALL, Amounts, catalog_model, parse_allocated, parse_devices
from fairlead.compat.times import parse_iso
from fairlead.keys import ALLOCATED, DEVICES, PREFIX
from fairlead.ownedobjects.confined import AcceleratorShare
from fairlead.pipelineobjects.resource import HostGroup
from fairlead.reconcile import Manifest
from fairlead.units import parse_bytes, parse_exact_quantity, parse_quantity, pluralize

LOST_AFTER: Final = timedelta(seconds=30)
"""A node that is not ready for this long counts as lost."""
_SHOWN: Final = 3
_REPELS: Final = ("NoSchedule", "NoExecute")
_BY_CONDITION: Final = tuple(
    f"node.kubernetes.io/{what}" for what in ("not-ready", "unreachable", "unschedulable")
)
"""Taints that say what the node's condition and `spec.unschedulable` say."""
_MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class HostState:
    """A host beside the nodes of now."""

    name: str
    fault: str = ""
    """Why no stage can be put on it; empty: one can."""
    memory_bytes: float | None = None
    """What its pod may hold; None: no limit is known."""
    decided_at: datetime | None = None
    """When a node of it that is not ready counts as lost."""


@dataclass(frozen=True, slots=True)
class HostPods:
    """The pods of a host: one, or two while it is replaced."""

    nodes: frozenset[str] = frozenset()
    """Where they run; one that is leaving does not count."""
    holders: tuple[str, ...] = ()
    """How the names of their containers begin where agents publish what they hold."""


def host_states(
    groups: Iterable[HostGroup], nodes: Sequence[Manifest] | None, pods: Mapping[str, HostPods], now: datetime
) -> dict[str, HostState]:
    """Return each host's state; without nodes each can be used.

    A pod that runs is not measured again: neither a cordon nor its own share takes its node away.
    """
    return {
        group.name: HostState(group.name, "", _limit(group))
        if nodes is None
        else _host_state(group, nodes, pods.get(group.name, HostPods()), now)
        for group in groups
    }


def _host_state(group: HostGroup, nodes: Sequence[Manifest], pods: HostPods, now: datetime) -> HostState:
    matching = [node for node in nodes if _matches(group, node)]
    faults = {
        _name(node): _lost(node, now) or ("" if _name(node) in pods.nodes else _fault(group, pods, node))
        for node in matching
    }
    usable = [node for node in matching if not faults[_name(node)]]
    if not usable:
        return HostState(group.name, _describe(faults) or _no_node(group))
    sizes = [size for node in usable if (size := _bytes(_allocatable(node).get("memory"))) is not None]
    limits = [each for each in (_limit(group), max(sizes, default=None)) if each is not None]
    dues = [due for node in usable if not _is_ready(node) and (due := _due(node, now)) is not None]
    return HostState(group.name, "", min(limits, default=None), min(dues, default=None))


def _matches(group: HostGroup, node: Manifest) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in group.node_selector.items()):
        return False
    return not group.device_class or f"{PREFIX}{group.device_class}.count" in labels


def _lost(node: Manifest, now: datetime) -> str:
    """Return that a node is lost; empty: it is ready, or is not for a short time only."""
    return "" if _is_ready(node) or _due(node, now) is not None else f"node {_name(node)} is lost"


def _due(node: Manifest, now: datetime) -> datetime | None:
    """Return when a node that is not ready will count as lost; None: it does already."""
    since = _ready_condition(node).get("lastTransitionTime")
    due = parse_iso(since) + LOST_AFTER if since else now
    return due if due > now else None


def _is_ready(node: Manifest) -> bool:
    return _ready_condition(node).get("status") == "True"


def _ready_condition(node: Manifest) -> Mapping[str, Any]:
    for each in (node.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Ready":
            ready: Mapping[str, Any] = each
            return ready
    return {}


def _fault(group: HostGroup, pods: HostPods, node: Manifest) -> str:
    """Return why a node takes no new pod of a host."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return f"node {_name(node)} is cordoned"
    for taint in spec.get("taints") or ():
        if taint.get("effect") in _REPELS and not _tolerated(taint, group.tolerations):
            return f"node {_name(node)} has the taint {taint['key']}, which the host does not tolerate"
    return _lacks(group, node) or _lacks_share(group, pods, node)


def _tolerated(taint: Mapping[str, Any], tolerations: Iterable[Manifest]) -> bool:
    if taint["key"] in _BY_CONDITION:
        return True
    return any(
        each.get("key") in (None, "", taint["key"])
        and each.get("effect") in (None, "", taint["effect"])
        and (each.get("operator") == "Exists" or (each.get("value") or "") == (taint.get("value") or ""))
        for each in tolerations
    )


def _lacks(group: HostGroup, node: Manifest) -> str:
    """Return what of the host's requests a node does not have, even when it is empty."""
    has = _allocatable(node)
    wanted = dict(group.resources.get("limits") or {}) | dict(group.resources.get("requests") or {})
    for name, amount in wanted.items() if has else ():
        if _exceeds(amount, has.get(name, "0")):
            return f"node {_name(node)} has {has.get(name, 'no')} {name}, and the host requests {amount}"
    return ""


def _lacks_share(group: HostGroup, pods: HostPods, node: Manifest) -> str:
    share = group.accelerator
    if share is None or _free_accelerators(group, share, pods, node) >= share.count:
        return ""
    what = f"{share.count} accelerators" if share.count > 1 else "an accelerator"
    return f"node {_name(node)} does not have {what} with {share.memory} free"


def _free_accelerators(group: HostGroup, share: AcceleratorShare, pods: HostPods, node: Manifest) -> int:
    """Return how many accelerators have the memory of a share, as the agent of the node has published."""
    notes = node["metadata"].get("annotations") or {}
    amounts = parse_allocated(notes.get(ALLOCATED, "")) or {}
    needed = -(-parse_bytes(share.memory) // _MEBIBYTE)
    return sum(
        each.healthy
        and group.device_class in ("", catalog_model(each.model))
        and _free(each.id, each.mebibytes, amounts, pods.holders) >= needed
        for each in parse_devices(notes.get(DEVICES, "")) or ()
    )


def _free(accelerator: str, mebibytes: int, amounts: Amounts, own: tuple[str, ...]) -> int:
    """Return the MiB that no other container or claim holds; an amount of 0 holds everything.

    What a pod holds that is being replaced is free for its successor.
    """
    held = [
        amount
        for key in (accelerator, ALL)
        for holders in amounts.get(key, {}).values()
        for holder, amount in holders.items()
        if not holder.startswith(own)
    ]
    return 0 if 0 in held else mebibytes - sum(held)


def _describe(faults: Mapping[str, str]) -> str:
    """Return why no node can be used, in one line; equal faults once."""
    lost = [name for name, fault in faults.items() if fault == f"node {name} is lost"]
    texts = [fault for name, fault in faults.items() if name not in lost]
    if lost:
        names = ", ".join(lost[:_SHOWN]) + (f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else "")
        texts.insert(0, f"nodes {names} are lost" if len(lost) > 1 else f"node {names} is lost")
    more = f" (and {pluralize(len(texts) - _SHOWN, 'more node')})" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more


def _no_node(group: HostGroup) -> str:
    wants = [f"{key}={value}" for key, value in sorted(group.node_selector.items())]
    wants += [f"{PREFIX}{group.device_class}.count"] if group.device_class else []
    return f"no node has the labels {', '.join(wants)}" if wants else "the cluster has no node"


def _limit(group: HostGroup) -> float | None:
    return _bytes((group.resources.get("limits") or {}).get("memory"))


def _bytes(amount: Any) -> float | None:
    """Return an amount of memory; None where there is none, or the API server will refuse it."""
    return None if amount is None else _parsed_bytes(str(amount))


@lru_cache(maxsize=4096)
def _parsed_bytes(text: str) -> float | None:
    try:
        return parse_quantity(text)
    except ValueError:
        return None


def _exceeds(wanted: Any, has: Any) -> bool:
    try:
        return parse_exact_quantity(str(wanted)) > parse_exact_quantity(str(has))
    except ValueError:  # the API server will refuse the pod, and say why
        return False


def _allocatable(node: Manifest) -> Mapping[str, Any]:
    return (node.get("status") or {}).get("allocatable") or {}


def _name(node: Manifest) -> str:
    return str(node["metadata"]["name"])
