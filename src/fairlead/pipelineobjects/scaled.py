"""What the status of a Pipeline says of replicas that follow the load, as its run has decided. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from fairlead.pipeline.spec import PipelineSpec
from fairlead.pipelineobjects.update.run_status import FollowStatus
from fairlead.reconcile import Announcement

_REASON: Final = 1024
"""Characters of a reason that are kept."""


def is_scaled(spec: PipelineSpec) -> bool:
    """Return whether some stage has replicas that follow the load."""
    return any(stage.scale is not None for stage in spec.stages)


def scaled_stages(
    before: Mapping[str, Any], spec: PipelineSpec, run: FollowStatus | None
) -> tuple[list[dict[str, Any]], tuple[Announcement, ...]]:
    """Return the entries of the status, and an event for each change that they did not have before.

    `before` is the status as it is stored; without a page of the run its entries stay.
    """
    known = {each["stage"]: each for each in before.get("scaling") or ()}
    said = {each["stage"]: each for each in (run.scaling if run is not None else ())}
    names = [stage.name for stage in spec.stages if stage.scale is not None]
    entries = [_entry(said[name]) if name in said else known.get(name) for name in names]
    kept = [each for each in entries if each is not None]
    changed = [each for each in kept if _has_changed(known.get(each["stage"]), each)]
    return kept, tuple(_event(said[each["stage"]]) for each in changed)


def _entry(said: Mapping[str, Any]) -> dict[str, Any]:
    last = said["last"] or {}
    body = {key: said[key] for key in ("stage", "replicas", "min", "max", "changes")}
    return body | ({"reason": str(last["reason"])[:_REASON]} if last else {})


def _has_changed(known: Mapping[str, Any] | None, entry: Mapping[str, Any]) -> bool:
    """Return whether the run has changed a number since; one that has begun again counts from nothing."""
    return bool(entry["changes"]) and (known is None or known["changes"] != entry["changes"])


def _event(said: Mapping[str, Any]) -> Announcement:
    last = said["last"]
    text = f"{said['stage']} scaled from {last['from']} to {last['to']}: {last['reason']}"
    return Announcement("Normal", "Scaled", text[:_REASON])
