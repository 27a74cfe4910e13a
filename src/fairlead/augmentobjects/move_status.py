"""What the status of an Augmentation says of its move to a smaller claim. Pure."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fairlead.augmentobjects.moves import DataMove, MoveFacts, MovePhase, is_store_ready
from fairlead.augmentobjects.problems import AugmentationCondition
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.compat.times import UTC, parse_iso
from fairlead.ownedobjects.conditions import ConditionState


def move_state(move: DataMove) -> tuple[ConditionState, ...]:
    """Return the condition that says how far the move is; none where none is asked for."""
    if move.phase is None:
        return ()
    kind, is_done = AugmentationCondition.RECLAIMED, move.phase is MovePhase.DONE
    failed = move.phase is MovePhase.FAILED
    return (ConditionState(kind, is_done, move.reason or str(move.phase), move.message, is_warning=failed),)


def move_document(resource: AugmentationResource, move: DataMove, facts: MoveFacts) -> dict[str, Any]:
    """Return the entry of the status; empty: none."""
    if move.phase is None:
        return {}
    before = facts.before if facts.before.get("request") == resource.reclaim else {}
    said = {"reason": move.reason, "message": move.message}
    return {
        "request": resource.reclaim,
        "phase": str(move.phase),
        **{name: text for name, text in said.items() if text},
        **_frozen(before, move, facts),
    }


def _frozen(before: Mapping[str, Any], move: DataMove, facts: MoveFacts) -> dict[str, Any]:
    """Return since when writes are refused, and at the end for how many seconds they were."""
    since = before.get("frozenSince")
    known = {"freezeSeconds": before["freezeSeconds"]} if "freezeSeconds" in before else {}
    if move.freeze:
        return known | {"frozenSince": since or _text(facts.now)}
    if not since:
        return known
    if not is_store_ready(facts.pods):
        return known | {"frozenSince": since}
    return {"freezeSeconds": math.ceil((facts.now - parse_iso(since)).total_seconds())}


def _text(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
