"""What the coordinator's page says of its run: how far it follows its file, and what it has counted. Pure."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

STATUS_PATH: Final = "/status"


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What a run has counted since its process began."""

    seconds: float
    taken: int = 0
    """Frames that sinks have taken."""
    read: int = 0
    """Frames of sources."""
    failed: int = 0
    """Frames with which stages that moved have failed."""
    restarts: int = 0
    """Crashes of processes of these stages."""
    dropped: int = 0
    blocked: float = 0.0
    """The share of the last seconds in which the source could not hand on what it had read."""


@dataclass(frozen=True, slots=True)
class FollowStatus:
    """One answer of the page."""

    digest: str
    """Of the file that is carried out."""
    seen: str
    """Of the file that was read last."""
    pending: str
    """Why the file that was read last is not carried out before the run is started again."""
    failed: str
    """Why the last move was given up."""
    stages: tuple[Mapping[str, Any], ...]
    edges: tuple[Mapping[str, Any], ...]
    seconds: float
    scaling: tuple[Mapping[str, Any], ...] = ()
    """Of stages whose replicas follow the load: how many there are, and why."""

    def counts(self, moved: Collection[str]) -> RunCounts:
        """Return what was counted; failures are those of the stages that move."""
        sinks = [each for each in self.stages if each.get("role") == "sink"]
        sources = [each for each in self.stages if each.get("role") == "source"]
        mine = [each for each in self.stages if each.get("name") in moved]
        return RunCounts(
            self.seconds,
            taken=_sum(sinks, "in"),
            read=_sum(sources, "out"),
            failed=_sum(mine, "failed"),
            restarts=_sum(mine, "restarts"),
            dropped=sum(sum((each.get("dropped") or {}).values()) for each in (*sources, *self.edges)),
            blocked=max((float(each.get("blocked") or 0) for each in sources), default=0.0),
        )


def read_status(body: bytes, pipeline: str) -> FollowStatus | None:
    """Return what a page says; None where it is not the page of this pipeline's run."""
    try:
        document = json.loads(body)
        follow = document["follow"]
        if document["pipeline"] != pipeline:
            return None
        return FollowStatus(
            str(follow["digest"]),
            str(follow["seen"]),
            str(follow.get("pending") or ""),
            str(follow.get("failed") or ""),
            tuple(document["stages"]),
            tuple(document["edges"]),
            float(document["seconds"]),
            tuple(map(_scaling, document.get("scaling") or ())),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _scaling(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is said of one stage, checked; TypeError, KeyError, ValueError."""
    last = body["last"]
    numbers = {key: int(body[key]) for key in ("replicas", "min", "max", "changes")}
    return {
        "stage": str(body["stage"]),
        **numbers,
        "last": last and {**{key: int(last[key]) for key in ("from", "to")}, "reason": str(last["reason"])},
    }


def _sum(stages: list[Mapping[str, Any]], key: str) -> int:
    return sum(int(each.get(key) or 0) for each in stages)
