"""The share of an elastic pod: the limit that its framework gets when it is placed.

An elastic workload runs in its least size and is content with more. So it is placed by its least size, and
takes what is free up to its full size, as long as enough remains for the pods that may come beside it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from fairlead.placement import Placement
from fairlead.sizing.footprint import Footprint
from fairlead.units import Bytes

PLACES: Final = 8
"""Pods for which an accelerator keeps room at their least size. More contexts than these gain nothing by
time-slicing: on one H200, eight engines were no faster than four."""


def offered_share(least: Bytes, full: Bytes, free: int, holders: int) -> Bytes:
    """Return the limit of a pod that is placed with `free` bytes left, beside that many other pods.

    `least` fits into `free`: the pod was placed by it.
    """
    others = max(0, PLACES - holders - 1)
    return Bytes(max(least, min(full, free - others * least)))


class RoomLeft(NamedTuple):
    """What an accelerator has left without the pod itself."""

    memory: int
    holders: int


def extend_shares(
    placement: Placement, footprint: Footprint | None, left: Mapping[str, RoomLeft]
) -> Placement:
    """Return a placement with the shares that an elastic pod is offered, by accelerator, as its new limit.

    A pod without a limit, and one of which no least size is known, keeps its shares.
    """
    need = placement.request.need
    if need is None or not need.firm or footprint is None or footprint.least is None or not placement.shares:
        return placement
    full = Bytes(round(footprint.full * (1 + footprint.margin)))
    shares = tuple(
        share
        if share.whole
        else replace(share, memory=offered_share(share.memory, full, *left[share.device]))
        for share in placement.shares
    )
    size = min(share.memory for share in shares)
    if size <= need.peak:
        return placement
    request = replace(placement.request, need=replace(need, sizes=(size,), weights=(1.0,)))
    return Placement(request, placement.node, tuple(replace(share, memory=size) for share in shares))
