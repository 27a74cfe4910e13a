"""The explanation of a Pipeline as one document. Pure; its fields are a contract."""

from typing import Any, Final

from fairlead.ownedobjects import stored
from fairlead.whatif.pipeline.changes import changes
from fairlead.whatif.pipeline.cluster_findings import operator_findings, pod_findings, resource_findings
from fairlead.whatif.pipeline.findings import PipelineFinding, by_severity
from fairlead.whatif.pipeline.observed import Json, ObservedPipeline, ObservedPod
from fairlead.whatif.pipeline.places import stage_places
from fairlead.whatif.pipeline.run_findings import drop_rate, run_findings, total_rate

_MOST_EVENTS: Final = 8
_EDGE: Final = ("from", "to", "policy", "size", "depth", "age", "rate", "drop_rate", "dropped")
_CONDITION: Final = ("type", "status", "reason", "message")


def explain_pipeline(observed: ObservedPipeline) -> dict[str, Any]:
    """Return the explanation."""
    meta = observed.resource["metadata"]
    state = _state(observed)
    return {
        "pipeline": meta["name"],
        "namespace": meta["namespace"],
        "generation": meta.get("generation", 0),
        "state": state,
        "running": stored.is_running(observed.resource),
        "sentence": f"{observed.name} {_sentence(observed, state)}",
        "findings": [each.document() for each in _findings(observed)],
        "changes": [each.document() for each in changes(observed)],
        "stages": [each.document() for each in stage_places(observed)],
        "pods": [_pod(each) for each in observed.pods],
        "run": _run(observed.run) if observed.run else None,
        "run_note": observed.run_note,
        "conditions": [
            {key: each.get(key, "") for key in _CONDITION} for each in observed.status.get("conditions") or ()
        ],
        "events": [
            {"time": each.time, "type": each.type, "reason": each.reason}
            | {"message": each.message, "count": each.count}
            for each in observed.events[:_MOST_EVENTS]
        ],
    }


def _state(observed: ObservedPipeline) -> str:
    """Return how the Pipeline is doing, in one word."""
    ready = observed.condition("Ready")
    if observed.resource["metadata"].get("deletionTimestamp"):
        return "deleting"
    if not stored.is_observed(observed.resource):
        return "unobserved"
    if observed.condition("Accepted").get("status") == "False":
        return "refused"
    if ready.get("reason") == "Completed":
        return "completed"
    if observed.spec.get("suspend"):
        return "suspended"
    return "running" if ready.get("status") == "True" else "waiting"


def _findings(observed: ObservedPipeline) -> list[PipelineFinding]:
    return by_severity(
        [
            *resource_findings(observed),
            *pod_findings(observed),
            *run_findings(observed.run),
            *operator_findings(observed),
        ]
    )


def _sentence(observed: ObservedPipeline, state: str) -> str:
    """Return the answer in one sentence, to be read behind the name."""
    ready = observed.condition("Ready").get("message") or "nothing is known of its pods yet"
    accepted = observed.condition("Accepted").get("message", "")
    return {
        "running": f"runs: {_rate(observed) or ready}",
        "completed": "is done: its sources have ended",
        "waiting": f"is not ready: {ready}",
        "refused": f"is refused: {accepted}",
        "suspended": "is suspended: no pod runs",
        "deleting": "is being deleted",
    }.get(state, "waits: no operator has looked at it as it is now")


def _rate(observed: ObservedPipeline) -> str:
    run = observed.run
    if not run:
        return ""
    lost = sum(map(drop_rate, run["edges"]))
    drops = f", {lost:.1f} frames/s dropped" if lost >= 0.05 else ""
    limited = f", limited by {run['bottleneck']}" if run.get("bottleneck") else ""
    return f"{total_rate(run, 'sink'):.1f} frames/s{drops}{limited}"


def _pod(pod: ObservedPod) -> dict[str, Any]:
    return {
        "name": pod.status.pod,
        "host": pod.host,
        "node": pod.status.node,
        "phase": pod.phase,
        "ready": pod.status.is_ready,
        "message": pod.status.message,
        "explanation": dict(pod.explanation) or None,
    }


def _run(run: Json) -> dict[str, Any]:
    return {
        "seconds": run["seconds"],
        "open": bool(run.get("open", True)),
        "rate": total_rate(run, "sink"),
        "source_rate": total_rate(run, "source"),
        "drop_rate": sum(map(drop_rate, run["edges"])),
        "age": max((float(edge["age"]) for edge in run["edges"]), default=0.0),
        "bottleneck": run.get("bottleneck"),
        "edges": [{key: edge.get(key) for key in _EDGE} for edge in run["edges"]],
        "moves": list(run.get("moves") or ()),
        "scaling": list(run.get("scaling") or ()),
    }
