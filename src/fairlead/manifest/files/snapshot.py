"""A snapshot: a cluster at one moment, as a document that can be stored, sent and queried.

It holds what decides a placement and nothing else: no environment, no images, no secrets. The format has a
version. A key that the version does not know is rejected, so that no rule is silently ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import ManifestError
from fairlead.manifest.files.codec import decode, encode
from fairlead.placement import DisruptionBudget, NodeState, Placement
from fairlead.request import Request, problems
from fairlead.share import DeviceShare

FORMAT: Final = "fairlead-snapshot"
VERSION: Final = 2
_KEYS: Final = ("format", "version", "taken", "source", "nodes", "pods", "pending", "budgets")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Nodes with their resources, pods with what they hold, and pending pods."""

    nodes: tuple[NodeState, ...] = ()
    placements: tuple[Placement, ...] = ()
    pending: tuple[Request, ...] = ()
    taken: str = ""
    """The time by the clock of the machine that took the snapshot (RFC 3339, UTC)."""
    source: str = ""
    """The cluster, by its name in the kubeconfig."""
    budgets: tuple[DisruptionBudget, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "taken": self.taken,
            "source": self.source,
            "nodes": [encode(node) for node in self.nodes],
            "pods": [_pod(placement) for placement in self.placements],
            "pending": [encode(request) for request in self.pending],
            **({"budgets": [encode(budget) for budget in self.budgets]} if self.budgets else {}),
        }


def is_snapshot(document: Any) -> bool:
    """Return whether a document claims to be a snapshot."""
    return isinstance(document, dict) and document.get("format") == FORMAT


def parse(document: Mapping[str, Any], where: str) -> Snapshot:
    """Read a snapshot, or reject it with the place of its first fault."""
    version = document.get("version")
    if version != VERSION or isinstance(version, bool):
        raise ManifestError(
            f"{where}: version: {version!r} is not read here", f"this program reads version {VERSION}"
        )
    for key in document:
        if key not in _KEYS:
            raise ManifestError(f"{where}: unknown key {key!r}", f"known: {', '.join(_KEYS)}")
    nodes = decode(tuple[NodeState, ...], document.get("nodes", []), f"{where}: nodes")
    _check_unique(f"{where}: nodes", [node.name for node in nodes])
    pods = _list(document.get("pods", []), f"{where}: pods")
    devices = {node.name: {device.id for device in node.devices} for node in nodes}
    placements = tuple(_placement(item, f"{where}: pods[{at}]", devices) for at, item in enumerate(pods))
    pending = decode(tuple[Request, ...], document.get("pending", []), f"{where}: pending")
    running = [placement.request for placement in placements]
    _check_unique(f"{where}: pods", [request.id for request in (*running, *pending)])
    for at, request in enumerate(pending):
        check_request(request, f"{where}: pending[{at}]")
    taken, source = (decode(str, document.get(key, ""), f"{where}: {key}") for key in ("taken", "source"))
    budgets = decode(tuple[DisruptionBudget, ...], document.get("budgets", []), f"{where}: budgets")
    return Snapshot(nodes, placements, pending, taken, source, budgets)


def check_request(request: Request, where: str) -> None:
    """Reject a request with an impossible figure."""
    for text in problems(request):
        raise ManifestError(f"{where}: {text}", "correct the figure")


def _pod(placement: Placement) -> dict[str, Any]:
    shares = {"shares": [encode(share) for share in placement.shares]} if placement.shares else {}
    return {**encode(placement.request), "node": placement.node, **shares}


def _placement(item: Any, where: str, devices: Mapping[str, set[str]]) -> Placement:
    if not isinstance(item, dict):
        raise ManifestError(f"{where}: not a mapping")
    fields = {key: value for key, value in item.items() if key not in ("node", "shares")}
    request = decode(Request, fields, where)
    check_request(request, where)
    name = decode(str, item.get("node"), f"{where}.node")
    shares = decode(tuple[DeviceShare, ...], item.get("shares", []), f"{where}.shares")
    if name not in devices:
        raise ManifestError(
            f"{where}.node: there is no node {name!r}", "name a node of the file for every running pod"
        )
    for at, share in enumerate(shares):
        if share.device not in devices[name]:
            raise ManifestError(f"{where}.shares[{at}].device: {name} has no {share.device!r}")
    return Placement(request, name, shares)


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ManifestError(f"{where}: not a list")
    return value


def _check_unique(where: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ManifestError(f"{where}: {name!r} is defined twice", "rename one")
        seen.add(name)
