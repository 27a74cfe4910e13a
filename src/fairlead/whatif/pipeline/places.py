"""Where each stage of a Pipeline is, and why. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fairlead.pipelineobjects.names import LOCAL
from fairlead.whatif.pipeline.observed import Json, ObservedPipeline


@dataclass(frozen=True, slots=True)
class StagePlace:
    """One stage: where it shall be, and where it is."""

    stage: str
    host: str
    why: str
    pods: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    run: Json | None = None
    """What the run says of it."""

    def document(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        run = self.run or {}
        measured = ("rate", "busy", "waiting", "blocked", "failed", "restarts")
        return {
            "name": self.stage,
            "host": self.host,
            "why": self.why,
            "pods": list(self.pods),
            "nodes": list(self.nodes),
            **{key: run.get(key) for key in measured},
        }


def stage_places(observed: ObservedPipeline) -> list[StagePlace]:
    """Return the place of each stage, in the order of the spec."""
    planned = {each["stage"]: each["host"] for each in observed.status.get("plan") or ()}
    running = {each["name"]: each for each in observed.run.get("stages") or ()}
    return [
        _place(observed, stage, planned.get(stage["name"], ""), running.get(stage["name"]))
        for stage in observed.spec.get("stages") or ()
    ]


def _place(observed: ObservedPipeline, stage: Json, planned: str, run: Json | None) -> StagePlace:
    stated = stage.get("host") or ""
    host = planned or stated or LOCAL
    pods = observed.pods_of(host)
    nodes = _unique(pod.status.node for pod in pods)
    why = _why(observed, stated, host) + _node_reason(observed, host, nodes)
    return StagePlace(stage["name"], host, why, _unique(pod.status.pod for pod in pods), nodes, run)


def _why(observed: ObservedPipeline, stated: str, host: str) -> str:
    if stated:
        return f"the spec states host {stated}"
    if observed.spec.get("plan"):
        return f"the plan puts it on {host}"
    return "the spec states no host, so that it is in the coordinator's pod"


def _node_reason(observed: ObservedPipeline, host: str, nodes: Iterable[str]) -> str:
    """Return what a node of the host must have, where the host has one."""
    groups = {each["name"]: each for each in observed.spec.get("hosts") or ()}
    group = (observed.spec.get(LOCAL) if host == LOCAL else groups.get(host)) or {}
    parts = [f"{key}={value}" for key, value in (group.get("nodeSelector") or {}).items()]
    parts += [f"class {group['class']}"] if group.get("class") else []
    parts += [f"{group['accelerator']['memory']} of an accelerator"] if group.get("accelerator") else []
    if not nodes or not parts:
        return ""
    return f"; node {', '.join(nodes)} has {', '.join(parts)}"


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
