"""Conditions by the Kubernetes conventions: one of each type, with the time of its last transition. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fairlead.compat.times import UTC
from fairlead.reconcile import Announcement

_LONGEST: Final = 1024
"""Characters of a message; the kinds allow 2048."""
PROGRESSING: Final = "Progressing"
"""The condition that follows every step of a controller: it is no event."""


@dataclass(frozen=True, slots=True)
class ConditionState:
    """What one condition says now."""

    type: str
    is_true: bool
    reason: str
    message: str
    is_warning: bool = False
    """Somebody must do something."""


def merge_conditions(
    before: Sequence[dict[str, Any]], states: Iterable[ConditionState], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """Return the conditions of the status; the time changes only where `status` does."""
    known = {each.get("type"): each for each in before}
    merged = []
    for state in states:
        status = "True" if state.is_true else "False"
        old = known.get(state.type)
        since = old.get("lastTransitionTime") if old and old.get("status") == status else None
        merged.append(
            {
                "type": str(state.type),
                "status": status,
                "reason": state.reason,
                "message": state.message[:_LONGEST],
                "observedGeneration": generation,
                "lastTransitionTime": since or now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        )
    return merged


def announce(before: Sequence[dict[str, Any]], states: Iterable[ConditionState]) -> tuple[Announcement, ...]:
    """Return an event for each condition that says something else than before."""
    known = {each.get("type"): (each.get("status"), each.get("reason")) for each in before}
    return tuple(
        Announcement("Warning" if state.is_warning else "Normal", state.reason, state.message[:_LONGEST])
        for state in states
        if known.get(state.type) != ("True" if state.is_true else "False", state.reason)
        and state.type != PROGRESSING
    )
