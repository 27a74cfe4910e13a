"""Where each host of a run that goes on is, and will be: a new pod starts in its other slot. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from fairlead.compat.times import parse_iso
from fairlead.ownedobjects.pod_state import DELETED, PodState
from fairlead.pipelineobjects.names import LOCAL, SLOTS
from fairlead.pipelineobjects.sequence import Place, states_of
from fairlead.pipelineobjects.status import host_status
from fairlead.reconcile import Manifest
from fairlead.units import parse_exact_quantity

SURGE_WITHIN: Final = timedelta(seconds=60)
"""How long a new pod may find no node beside the old one."""
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HostMove:
    """One host: its slot in the file, its slot once everything is done, and what becomes of its pods now."""

    host: str
    slot: str
    next: str
    state: PodState | None
    """Of the pod in its slot; None: there is none."""
    create: tuple[Place, ...] = ()
    end: tuple[Place, ...] = ()

    @property
    def is_moving(self) -> bool:
        """Whether its address will be another."""
        return self.slot != self.next

    @property
    def is_update(self) -> bool:
        """Whether it moves because another pod is wanted."""
        return self.is_moving and self.state is PodState.OUTDATED


def plan_moves(
    wanted: Mapping[str, Manifest],
    pods: Mapping[Place, Manifest],
    slots: Mapping[str, str],
    can_move: Callable[[str, str], bool],
    now: datetime,
) -> list[HostMove]:
    """Return what becomes of each host; `can_move` says whether a run carries a host's new slot out live."""
    moves = []
    for host in wanted:
        if host != LOCAL:
            states = states_of(host, wanted[host], pods, now)
            moves.append(_plan_move(host, slots.get(host, SLOTS[0]), states, can_move))
    return moves


def _plan_move(
    host: str, slot: str, states: Mapping[str, PodState], can_move: Callable[[str, str], bool]
) -> HostMove:
    here = states.get(slot)
    other = next(each for each in SLOTS if each != slot)
    beside = states.get(other)
    if here is PodState.CURRENT:
        return HostMove(host, slot, slot, here)
    if here is PodState.ENDED:  # its successor has the same address
        return HostMove(host, slot, slot, here, end=((host, slot),))
    if here is None and beside is not PodState.CURRENT:
        return HostMove(host, slot, slot, here, create=((host, slot),))
    if here is PodState.ENDING and not can_move(host, other):
        return HostMove(host, slot, slot, here)
    create = ((host, other),) if beside is None else ()
    end = ((host, other),) if beside in (PodState.OUTDATED, PodState.ENDED) else ()
    return HostMove(host, slot, other, here, create, end)


def is_ready(pods: Mapping[Place, Manifest], place: Place) -> bool:
    """Return whether a pod is there, is not being deleted, and takes runs."""
    pod = pods.get(place)
    return (
        pod is not None
        and not pod["metadata"].get("deletionTimestamp")
        and host_status(place[0], pod).is_ready
    )


def is_crowded_out(move: HostMove, wanted: Manifest, pods: Mapping[Place, Manifest], now: datetime) -> bool:
    """Return whether the new pod of a host finds no node, and would find one where the old pod is.

    That is so if it has the old pod's rules about nodes, and requests no more.
    """
    new, old = pods.get((move.host, move.next)), pods.get((move.host, move.slot))
    if not move.is_update or new is None or old is None or (new.get("spec") or {}).get("nodeName"):
        return False
    made = new["metadata"].get("creationTimestamp")
    if not made or now < parse_iso(made) + SURGE_WITHIN:
        return False
    before, after = old["spec"], wanted["spec"]
    rules = all((before.get(key) or None) == (after.get(key) or None) for key in ("nodeSelector", "affinity"))
    known, asked = _requests(before), _requests(after)
    return rules and all(amount <= known.get(name, 0) for name, amount in asked.items())


def _requests(spec: Json) -> dict[str, Fraction]:
    resources = spec["containers"][0].get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    exact = {name: parse_exact_quantity(str(amount)) for name, amount in amounts.items()}
    return {name: amount.value * Fraction(10) ** amount.scale for name, amount in exact.items()}


def is_leaving(move: HostMove) -> bool:
    """Return whether the pod in the host's slot is being deleted, and was no update."""
    return move.is_moving and (move.state is None or move.state in DELETED)
