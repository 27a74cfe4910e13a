"""Which pods of a Pipeline are made, left alone or ended while its run stands still. Pure.

Pods do not change: another spec is another pod. The coordinator stops before its hosts, so that the frames on
their way are finished. What a run carries out while it goes on is in live.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from fairlead.keys import PIPELINE_HOST, PIPELINE_SLOT
from fairlead.ownedobjects.pod_state import DELETED, PodState, pod_state
from fairlead.pipelineobjects.names import LOCAL, SLOTS
from fairlead.reconcile import Manifest

Place = tuple[str, str]
"""A host and its slot."""
COORDINATOR: Final[Place] = (LOCAL, "")


@dataclass(frozen=True, slots=True)
class PodSequence:
    """What becomes of the pods now."""

    create: tuple[Place, ...] = ()
    """Pods that must be made."""
    keep: tuple[Place, ...] = ()
    """Pods that stay, or are being deleted already."""
    end: tuple[Place, ...] = ()
    """Pods that are deleted now."""
    waits_for: str = ""
    """The host whose pod must be gone before anything else happens."""
    slots: Mapping[str, str] = field(default_factory=dict)
    """The slot of each host that has stages."""


def place_of(pod: Manifest) -> Place:
    """Return the host of an observed pod and its slot."""
    labels = pod["metadata"].get("labels") or {}
    return labels.get(PIPELINE_HOST, ""), labels.get(PIPELINE_SLOT, "")


def states_of(
    host: str, wanted: Manifest | None, pods: Mapping[Place, Manifest], now: datetime
) -> dict[str, PodState]:
    """Return the states of the pods of a host by slot."""
    return {slot: pod_state(pods[host, slot], wanted, now) for slot in ("", *SLOTS) if (host, slot) in pods}


def sequence_stopped(
    wanted: Mapping[str, Manifest],
    pods: Mapping[Place, Manifest],
    slots: Mapping[str, str],
    now: datetime,
) -> PodSequence:
    """Return what becomes of pods without a run: every host gets its pod, and then the coordinator starts.

    `wanted` is empty for a Pipeline that shall not run; `slots` are those of the last run.
    """
    hosts = [host for host in wanted if host != LOCAL]
    states = {host: states_of(host, wanted[host], pods, now) for host in hosts}
    chosen = {host: _choose_slot(states[host], slots.get(host, SLOTS[0])) for host in hosts}
    missing = [(host, slot) for host, slot in chosen.items() if slot not in states[host]]
    running = [(host, slot) for host, slot in chosen.items() if states[host].get(slot) is PodState.CURRENT]
    blocked = [host for host, slot in chosen.items() if states[host].get(slot, PodState.CURRENT) in DELETED]
    blocked += [host for host in hosts if (host, chosen[host]) not in (*missing, *running)]
    if COORDINATOR in pods:  # on a node that is lost
        blocked += [LOCAL] if LOCAL in wanted else []
    elif LOCAL in wanted and not blocked:
        missing.append(COORDINATOR)
    deleted = [place for place, pod in pods.items() if pod["metadata"].get("deletionTimestamp")]
    blocked += [host for host, _ in deleted if not wanted and host != LOCAL]  # a drain waits for their end
    keep = [place for place in pods if place in running or place in deleted]
    end = sorted(place for place in pods if place not in keep)
    return PodSequence(tuple(missing), tuple(keep), tuple(end), next(iter(blocked), ""), chosen)


def _choose_slot(states: Mapping[str, PodState], last: str) -> str:
    """Return the slot of a host: where its pod is, else one that is free, else that of the last run."""
    slots = (last, *(slot for slot in SLOTS if slot != last))
    current = (slot for slot in slots if states.get(slot) is PodState.CURRENT)
    free = (slot for slot in slots if slot not in states)
    return next(current, None) or next(free, None) or last


def sequence_end(pods: Mapping[Place, Manifest], now: datetime) -> PodSequence:
    """Return what becomes of the pods of a Pipeline that is over: the coordinator ends first."""
    coordinator = pods.get(COORDINATOR)
    if coordinator is None or pod_state(coordinator, None, now) is PodState.LOST:
        return sequence_stopped({}, pods, {}, now)
    return stop_coordinator(pods)


def stop_coordinator(pods: Mapping[Place, Manifest]) -> PodSequence:
    """Return that the coordinator is ended, or is being deleted, and that its hosts stay until it is gone."""
    others = tuple(place for place in pods if place != COORDINATOR)
    if pods[COORDINATOR]["metadata"].get("deletionTimestamp"):
        return PodSequence(keep=(*others, COORDINATOR), waits_for=LOCAL)
    return PodSequence(keep=others, end=(COORDINATOR,), waits_for=LOCAL)
