"""What a Pipeline says of its plan: the profile, what the plan has the best value of, and its limit. Pure.

The profile is in the resource itself, with the fields of its file: the resource is complete, and a change of
either is one write.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.errors import NewerFormatError, PipelineError
from fairlead.ownedobjects.kinds import digest
from fairlead.pipeline.plan.solve import Objective
from fairlead.pipeline.profile.facts import PIPELINE_PROFILES, PipelineProfile
from fairlead.units import parse_duration

PLAN: Final = "plan"
_REASON: Final = 200
"""Characters of a reason that the resource keeps."""
_AGAIN: Final = "fairlead pipeline deploy FILE --profile PROFILE stores one"


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """How the stages of a Pipeline that state no host are placed."""

    profile: PipelineProfile | None
    """None: there is none yet."""
    objective: Objective = Objective.THROUGHPUT
    max_latency_s: float | None = None
    digest: str = ""
    """Of what a person has written; another one is planned at once."""


def read_plan(body: Mapping[str, Any] | None) -> PlanSpec | None:
    """Return what `spec.plan` says; PipelineError names what cannot be read."""
    if body is None:
        return None
    latency, profile = body.get("maxLatency"), body.get("profile")
    try:
        limit = None if latency is None else float(parse_duration(str(latency)))
    except ValueError as error:
        raise PipelineError(f"plan.maxLatency: {error}", "write for example 200ms") from None
    try:
        known = None if profile is None else PIPELINE_PROFILES.decode(json.dumps(profile))
    except (ValueError, NewerFormatError) as error:
        raise PipelineError(f"plan.profile: {error}", _AGAIN) from None
    objective = Objective(body.get("objective") or Objective.THROUGHPUT)
    return PlanSpec(known, objective, limit, digest(dict(body)))


def plan_body(profile: PipelineProfile, objective: str, max_latency: str | None) -> dict[str, Any]:
    """Return `spec.plan` of a profile, without what no plan reads."""
    stages = tuple(
        replace(each, unknown={node: reason[:_REASON] for node, reason in each.unknown.items()})
        for each in profile.stages
    )
    body: dict[str, Any] = json.loads(PIPELINE_PROFILES.encode(replace(profile, stages=stages, notes=())))
    limit = {} if max_latency is None else {"maxLatency": max_latency}
    return {"profile": body, "objective": objective, **limit}
