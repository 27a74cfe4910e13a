"""A decision document: the decisions for every workload of a query, to be kept and explained later."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Final

from fairlead.errors import ManifestError
from fairlead.placement import Decision, NodeState

FORMAT: Final = "fairlead-decision"
VERSION: Final = 1
_FIELDS: Final = {
    "name": str,
    "namespace": str,
    "placed": bool,
    "sentence": str,
    "rejections": list,
    "changes": list,
}
"""The fields of a decision that an explanation needs, and their types."""


@dataclass(frozen=True, slots=True)
class AcceleratorDetail:
    """Why one accelerator, or node, cannot take a workload."""

    node: str
    device: str
    model: str
    reason: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "node": self.node,
            "device": self.device,
            "model": self.model,
            "reason": self.reason,
            "text": self.text,
        }


@dataclass(frozen=True)
class DecisionDocument:
    """Every decision of one query."""

    policy: str
    decisions: Sequence[Decision]
    nodes: Sequence[NodeState]
    details: Mapping[str, Sequence[AcceleratorDetail]] = field(default_factory=dict)
    """By the id of a refused request."""

    @property
    def refused(self) -> list[Decision]:
        """The decisions without a place."""
        return [decision for decision in self.decisions if not decision.placed]

    def models(self, decision: Decision) -> list[str]:
        """Return the models of the accelerators of a decision."""
        placed = decision.placement
        if placed is None:
            return []
        return [self._known.get((placed.node, share.device), "") for share in placed.shares]

    def predicted(self, decision: Decision) -> float | None:
        """Return the expected latency of the placement: of several accelerators, that of the slowest."""
        estimates = decision.request.estimates
        if any(estimates[name].unknown for name in self.models(decision) if name in estimates):
            return None
        latencies = [estimates[name].seconds for name in self.models(decision) if name in estimates]
        return max((latency for latency in latencies if latency is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the document."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "policy": self.policy,
            "placed": sum(decision.placed for decision in self.decisions),
            "refused": len(self.refused),
            "decisions": [self._one(decision) for decision in self.decisions],
        }

    @cached_property
    def _known(self) -> dict[tuple[str, str], str]:
        return {(node.name, device.id): device.model for node in self.nodes for device in node.devices}

    def _one(self, decision: Decision) -> dict[str, Any]:
        details = self.details.get(decision.request.id)
        return {
            **decision.to_json(),
            "models": self.models(decision),
            "predicted_seconds": self.predicted(decision),
            **({"devices": [detail.to_json() for detail in details]} if details is not None else {}),
        }


def parse(document: Any, where: str) -> list[dict[str, Any]]:
    """Return the decisions of a document; an error says why it is not a decision document."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ManifestError(f"{where}: not a decision", "make one with: fairlead schedule ... -o json")
    if document.get("version") != VERSION:
        raise ManifestError(
            f"{where}: version: {document.get('version')!r} is not read here", f"this program reads {VERSION}"
        )
    decisions = document.get("decisions")
    if not isinstance(decisions, list):
        raise ManifestError(f"{where}: decisions: not a list")
    for at, decision in enumerate(decisions):
        for key in missing_fields(decision):
            raise ManifestError(f"{where}: decisions[{at}].{key}: missing, or of the wrong type")
    return decisions


def missing_fields(decision: Any) -> list[str]:
    """Return the missing fields that an explanation of the decision needs."""
    fields = decision if isinstance(decision, dict) else {}
    return [key for key, kind in _FIELDS.items() if not isinstance(fields.get(key), kind)]


def find_decisions(decisions: Iterable[dict[str, Any]], name: str, where: str) -> list[dict[str, Any]]:
    """Return the decisions about a pod, by name, by `namespace/name`, or by the name of its controller."""
    listed = list(decisions)
    full = {f"{decision['namespace']}/{decision['name']}": decision for decision in listed}
    if name in full:
        return [full[name]]
    matches = [decision for decision in listed if decision["name"] == name]
    matches = matches or [decision for decision in listed if _controller(decision["name"]) == name]
    if not matches:
        close = get_close_matches(name, [decision["name"] for decision in listed], 3, 0.5)
        hint = f"did you mean {', '.join(close)}?" if close else "leave the name out to see all"
        raise ManifestError(f"{where}: nothing about {name!r}", hint)
    return matches


def _controller(name: str) -> str:
    stem, _, number = name.rpartition("-")
    return stem if number.isdecimal() else name
