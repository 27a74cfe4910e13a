"""Why a pod of a live cluster is on its node, or waits: its scheduler is asked, else it is decided here."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from fairlead.dashboard.answers import WhyAnswer
from fairlead.dashboard.sources.snapshot import parse_time
from fairlead.dashboard.why import why_answer
from fairlead.errors import FairleadError
from fairlead.manifest.files.collect import FoundObject, FoundObjects
from fairlead.manifest.types.live import LiveClaim, LivePod
from fairlead.whatif import leader, pod_status
from fairlead.whatif.pod_program import NoAnswer

if TYPE_CHECKING:
    from fairlead.serve.dashboard.cluster.source import ClusterSource

OURS: Final = "fairlead"
"""The schedulerName of our scheduler, if it is not set otherwise."""
_SOURCES: Final = {"scheduler": "the scheduler", "here": "decided by the dashboard", "pod": "the pod"}


async def explain_pod(source: "ClusterSource", namespace: str, name: str) -> WhyAnswer | None:
    """Return the explanation; None: there is no such pod."""
    pod = find_pod(source.objects(), namespace, name)
    if pod is None:
        return None
    claims: tuple[LiveClaim, ...] = tuple(source.tables.cache.claims_of(pod).values())
    report = pod_status.final_status(pod, claims) or await _pending(source, pod)
    now = source.board.clock()
    ago = report.get("decided_seconds_ago")
    final = report["state"] in ("bound", "ended")
    decided = parse_time(report["since"]) if final else now - float(ago or 0.0)
    return why_answer(
        f"{namespace}/{name}",
        report,
        decided=decided or now,
        source=_SOURCES.get(str(report["source"]), str(report["source"])),
        command=f"fairlead explain {namespace}/{name}",
    )


def find_pod(objects: Iterable[tuple[Any, Any]], namespace: str, name: str) -> LivePod | None:
    """Return a pod by its names."""
    for _, item in objects:
        if isinstance(item, LivePod) and item.key == (namespace, name):
            return item
    return None


async def _pending(source: "ClusterSource", pod: LivePod) -> dict[str, Any]:
    scheduler = pod.spec.scheduler_name
    try:
        holder = await leader.find_leader(source.client, source.lease_namespace, scheduler)
        answer = holder
        if not isinstance(holder, NoAnswer):
            answer = await leader.ask_leader(source.client, holder, pod)  # type: ignore[assignment]
    except FairleadError as error:
        answer = NoAnswer(f"the scheduler cannot be asked: {error}")
    if isinstance(answer, dict):
        return pod_status.status_from_scheduler(pod, answer)
    assert isinstance(answer, NoAnswer), "the leader answers, or not"
    if scheduler != OURS:
        return pod_status.status_from_condition(pod, answer.reason)
    decision = await asyncio.to_thread(_decide, source.objects(), source.catalog, pod)
    note = f"decided here, and the scheduler may differ: {answer.reason}"
    return pod_status.status_from_decision(pod, decision, note)


def _decide(objects: Any, catalog: Any, pod: LivePod) -> dict[str, Any]:
    from fairlead.whatif.local import decide_locally  # noqa: PLC0415  # the engine, once it is needed

    found = FoundObjects.of(
        FoundObject(f"{kind.name.lower()} {'/'.join(filter(None, item.key))}", kind.name, item)
        for kind, item in objects
    )
    return decide_locally(found, catalog, pod, detailed=True)
