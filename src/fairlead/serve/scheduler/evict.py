"""Evict a pod for another: say so on the pod, then evict it, only if it has not changed since that was said.

    mark (condition DisruptionTarget, names the preemptor) > evict, on the version that the mark made > mark

The API server puts a reason of its own into that condition when it evicts, hence the second mark.

A leader that takes over takes the mark off again before it decides (see `takeover.py`): an eviction of the
leader before that comes late fails from then on.
"""

from collections.abc import Callable
from typing import Any, Final

from fairlead.cache.types import DISRUPTION, PODS, PREEMPTED, PREEMPTING, Pod
from fairlead.errors import ClusterAwayError, ClusterError, ConflictError, NotFoundError
from fairlead.serve.scheduler.act import Hands, read
from fairlead.serve.scheduler.preemption import UNNEEDED
from fairlead.serve.scheduler.writes import Write, pod_status

_TRIES: Final = 5
"""How often a victim that others change at the same time is marked and evicted."""


async def evict(
    hands: Hands, victim: Pod, preemptor: str, turn: int, needed: Callable[[], bool], now: str
) -> str:
    """Evict a bound pod for `preemptor` while that is needed; return why not, empty where it is done."""
    for _ in range(_TRIES):
        if not (hands.leads(turn) and needed()):
            return UNNEEDED
        try:
            victim = read(Pod, await hands.send(mark(victim, preemptor, now)))
            if hands.leads(turn) and needed():
                await hands.send(eviction(victim))
                await hands.attempt(mark(victim, preemptor, now, precise=False))
                return ""
            await hands.attempt(unmark(victim, now))
            return UNNEEDED
        except NotFoundError:
            return ""
        except (ConflictError, ClusterAwayError):
            found = await hands.insist(Write("GET", _path(victim)))
            there = None if found is None else read(Pod, found)
            if (
                there is None
                or there.metadata.uid != victim.metadata.uid
                or there.metadata.deletion_timestamp
            ):
                return ""
            victim = there
        except ClusterError as error:
            await hands.attempt(unmark(victim, now))
            return str(error)
    return "other clients changed it again and again"


async def refusal(hands: Hands, victim: Pod) -> str:
    """Ask the API server whether a pod may be evicted, without doing it; return why not."""
    try:
        await hands.send(eviction(victim, dry_run=True))
    except NotFoundError:
        return ""
    except ClusterError as error:
        return str(error)
    return ""


def nominate(pod: Pod, node: str) -> Write:
    """Say on a preemptor for which node pods are evicted; an empty name takes that back."""
    body = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node or None}}
    return pod_status(pod, body)


def mark(victim: Pod, preemptor: str, now: str, *, precise: bool = True) -> Write:
    """Say on a pod that it is evicted, and for which; `precise`: only if it is as we saw it, bound."""
    assert victim.spec.node_name, "only bound pods are victims"
    meta = victim.metadata
    condition = _condition("True", PREEMPTED, f"{PREEMPTING}{preemptor}", now)
    version = {"resourceVersion": meta.resource_version} if precise else {}
    return pod_status(
        victim, {"metadata": {"uid": meta.uid, **version}, "status": {"conditions": [condition]}}
    )


def unmark(victim: Pod, now: str, why: str = "the eviction was given up") -> Write:
    """Take the mark off a pod that stays."""
    condition = _condition("False", "PreemptionAbandoned", f"fairlead-scheduler: {why}", now)
    return pod_status(
        victim, {"metadata": {"uid": victim.metadata.uid}, "status": {"conditions": [condition]}}
    )


def eviction(victim: Pod, *, dry_run: bool = False) -> Write:
    """Evict a pod, only if it is as we saw it; the server says no where a budget forbids it.

    With `dry_run` the server only says whether it would, for this pod in any version.
    """
    meta = victim.metadata
    precise = {"uid": meta.uid, **({} if dry_run else {"resourceVersion": meta.resource_version})}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": precise, **({"dryRun": ["All"]} if dry_run else {})},
    }
    return Write("POST", f"{_path(victim)}/eviction", body)


def _condition(status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {
        "type": DISRUPTION,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }


def _path(pod: Pod) -> str:
    return PODS.path(pod.metadata.namespace, pod.metadata.name)
