"""A decision document: what was decided for every workload of a question, to be kept and explained later."""

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
"""What explaining needs of each decision, and its type."""


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
    """Every decision of one question."""

    policy: str
    decisions: Sequence[Decision]
    nodes: Sequence[NodeState]
    details: Mapping[str, Sequence[AcceleratorDetail]] = field(default_factory=dict)
    """By the id of a refused request."""

    @property
    def refused(self) -> list[Decision]:
        """Those that have no place."""
        return [each for each in self.decisions if not each.placed]

    def models(self, decision: Decision) -> list[str]:
        """Return the models of the accelerators that a decision gives."""
        placed = decision.placement
        if placed is None:
            return []
        return [self._known.get((placed.node, share.device), "") for share in placed.shares]

    def predicted(self, decision: Decision) -> float | None:
        """Return the latency that is expected where it was placed; the slowest of several accelerators."""
        estimates = decision.request.estimates
        found = [estimates[name].seconds for name in self.models(decision) if name in estimates]
        return max((each for each in found if each is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the document."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "policy": self.policy,
            "placed": sum(each.placed for each in self.decisions),
            "refused": len(self.refused),
            "decisions": [self._one(each) for each in self.decisions],
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
    """Return the decisions of a document, or say why it is none."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ManifestError(f"{where}: not a decision", "make one with: fairlead schedule ... -o json")
    if document.get("version") != VERSION:
        raise ManifestError(
            f"{where}: version: {document.get('version')!r} is not read here", f"this program reads {VERSION}"
        )
    decisions = document.get("decisions")
    if not isinstance(decisions, list):
        raise ManifestError(f"{where}: decisions: not a list")
    for at, each in enumerate(decisions):
        for key in missing_fields(each):
            raise ManifestError(f"{where}: decisions[{at}].{key}: missing, or not as it should be")
    return decisions


def missing_fields(decision: Any) -> list[str]:
    """Return the fields that a decision must have to be explained, and has not."""
    given = decision if isinstance(decision, dict) else {}
    return [key for key, kind in _FIELDS.items() if not isinstance(given.get(key), kind)]


def find_decisions(decisions: Iterable[dict[str, Any]], name: str, where: str) -> list[dict[str, Any]]:
    """Return the decisions about a pod, by its name, by `namespace/name`, or by its controller's name."""
    listed = list(decisions)
    full = {f"{each['namespace']}/{each['name']}": each for each in listed}
    if name in full:
        return [full[name]]
    found = [each for each in listed if each["name"] == name]
    found = found or [each for each in listed if _controller(each["name"]) == name]
    if not found:
        near = get_close_matches(name, [each["name"] for each in listed], 3, 0.5)
        hint = f"did you mean {', '.join(near)}?" if near else "leave the name out to see all"
        raise ManifestError(f"{where}: nothing about {name!r}", hint)
    return found


def _controller(name: str) -> str:
    stem, _, number = name.rpartition("-")
    return stem if number.isdecimal() else name
