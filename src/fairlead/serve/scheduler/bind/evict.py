"""Evict a pod: mark the pod, then evict it, only if it has not changed since the mark.

    mark (condition DisruptionTarget, names the cause) > evict, on the version that the mark made > mark

The API server writes its own reason into that condition when it evicts, hence the second mark.

A leader that takes over removes the mark before it decides (see `failover.py`): a late eviction of the
previous leader fails from then on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.cache.types import DISRUPTION, EVICTING, FULL, PREEMPTED, PREEMPTING, LivePod
from fairlead.cluster.times import format_time
from fairlead.errors import ClusterError, ClusterUnavailableError, ConflictError, NotFoundError
from fairlead.keys import FULL_DEVICE
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Flow
from fairlead.serve.scheduler.bind.requests import decode, get_pod, send_once
from fairlead.serve.scheduler.bind.writes import pod_path, pod_status
from fairlead.serve.scheduler.cycle.preemption import UNNEEDED
from fairlead.serve.scheduler.effects import EvictPod, Report

_TRIES: Final = 5
"""How often the eviction of a victim is tried while other clients change it."""


@dataclass(frozen=True, slots=True)
class EvictionCause:
    """Why a pod is evicted."""

    reason: str
    """Of the condition."""
    message: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the Eviction: what an admission webhook checks."""


def for_preemptor(preemptor: str) -> EvictionCause:
    """Return the cause of an eviction that makes room for another pod."""
    return EvictionCause(PREEMPTED, f"{PREEMPTING}{preemptor}")


def for_memory(device: str, text: str) -> EvictionCause:
    """Return the cause of an eviction from a device, as `node/device`, whose memory is nearly full."""
    return EvictionCause(FULL, f"{EVICTING}{text}", {FULL_DEVICE: device})


class Evictor:
    """Performs evictions as flows."""

    def __init__(self, leads: Callable[[int], bool], clock: MachineClock) -> None:
        self._leads = leads
        self._clock = clock

    def evict(
        self, victim: LivePod, cause: EvictionCause, epoch: int, needed: Callable[[], bool]
    ) -> Flow[str]:
        """Evict a bound pod while that is needed; return the error, or nothing."""
        now = format_time(self._clock.wall)
        for _ in range(_TRIES):
            if not (self._leads(epoch) and needed()):
                return UNNEEDED
            try:
                victim = decode(LivePod, (yield mark(victim, cause, now)))
                if self._leads(epoch) and needed():
                    yield eviction(victim, cause)
                    yield from send_once(mark(victim, cause, now, precise=False))
                    return ""
                yield from send_once(unmark(victim, now))
                return UNNEEDED
            except NotFoundError:
                return ""
            except (ConflictError, ClusterUnavailableError):
                latest = yield from get_pod(victim)
                if latest is None or _is_leaving(latest, victim):
                    return ""
                victim = latest
            except ClusterError as error:
                yield from send_once(unmark(victim, now))
                return str(error)
        return "other clients changed it again and again"


def refusal(victim: LivePod) -> Flow[str]:
    """Ask the API server whether a pod may be evicted, by a dry run; return why not."""
    try:
        yield eviction(victim, dry_run=True)
    except NotFoundError:
        return ""
    except ClusterError as error:
        return str(error)
    return ""


def nominate(pod: LivePod, node: str) -> Report:
    """Nominate a preemptor to the node on which pods are evicted for it; an empty name removes that."""
    body = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node or None}}
    return pod_status(Report, pod, body)


def mark(victim: LivePod, cause: EvictionCause, now: str, *, precise: bool = True) -> EvictPod:
    """Mark a bound pod with the cause of its eviction; `precise`: only at the version we read."""
    assert victim.spec.node_name, "only bound pods are victims"
    meta = victim.metadata
    condition = _condition("True", cause.reason, cause.message, now)
    version = {"resourceVersion": meta.resource_version} if precise else {}
    return pod_status(
        EvictPod, victim, {"metadata": {"uid": meta.uid, **version}, "status": {"conditions": [condition]}}
    )


def unmark(victim: LivePod, now: str, why: str = "the eviction was given up") -> EvictPod:
    """Remove the mark of a pod that stays."""
    condition = _condition("False", "PreemptionAbandoned", f"fairlead-scheduler: {why}", now)
    return pod_status(
        EvictPod, victim, {"metadata": {"uid": victim.metadata.uid}, "status": {"conditions": [condition]}}
    )


def eviction(victim: LivePod, cause: EvictionCause | None = None, *, dry_run: bool = False) -> EvictPod:
    """Evict a pod, only at the version we read; the API server refuses where a budget forbids it.

    With `dry_run` the server only says whether it would evict, for any version of this pod.
    """
    meta = victim.metadata
    precise = {"uid": meta.uid, **({} if dry_run else {"resourceVersion": meta.resource_version})}
    notes = {"annotations": dict(cause.annotations)} if cause is not None and cause.annotations else {}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace, **notes},
        "deleteOptions": {"preconditions": precise, **({"dryRun": ["All"]} if dry_run else {})},
    }
    return EvictPod("POST", f"{pod_path(victim)}/eviction", body)


def _is_leaving(now: LivePod, before: LivePod) -> bool:
    return now.metadata.uid != before.metadata.uid or bool(now.metadata.deletion_timestamp)


def _condition(status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {
        "type": DISRUPTION,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }
