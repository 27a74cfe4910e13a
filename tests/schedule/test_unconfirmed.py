"""Whoever is let pass fits wherever those are that were let pass before, however it goes."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead.placement import DeviceState, NodeState
from fairlead.request import Demand, Request
from fairlead.schedule import EngineCluster
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.score.candidates import filter_rows
from fairlead.schedule.state.unconfirmed import EXPIRES_AFTER, UnconfirmedPods
from fairlead.units import Bytes

NODE = "n"
Sizes = tuple[int, ...]


def ask(cluster: EngineCluster, memory: int | None, count: int = 1) -> CompiledRequest:
    size = None if memory is None else Bytes(memory)
    return CompiledRequest(cluster, Request("p", demand=Demand(count, size)))


def small(devices: Sizes) -> EngineCluster:
    found = tuple(DeviceState(f"gpu-{at}", "t4", memory=Bytes(size)) for at, size in enumerate(devices))
    return EngineCluster([NodeState(NODE, 1000, Bytes(1000), devices=found)])


def lets_pass(cluster: EngineCluster, doubts: UnconfirmedPods, asked: CompiledRequest) -> bool:
    rows, free = filter_rows(asked, cluster.rows())
    return bool(len(rows)) and bool(doubts.rows_with_room(asked, rows, free).all())


def always_fits(devices: Sizes, others: Sizes, memory: int | None, count: int) -> bool:
    """Say whether there is room in the end, whichever accelerator each of the others gets, or none here."""
    for chosen in product(range(-1, len(devices)), repeat=len(others)):
        left, held = list(devices), [0] * len(devices)
        for size, at in zip(others, chosen, strict=True):
            if at >= 0 and left[at] >= size:
                left[at] -= size
                held[at] += 1
        whole = memory is None
        fitting = [not held[at] if whole else left[at] >= max(memory or 0, 1) for at in range(len(devices))]
        if sum(fitting) < count:
            return False
    return True


@given(
    devices=st.lists(st.integers(1, 8), min_size=1, max_size=3).map(tuple),
    others=st.lists(st.integers(1, 8), max_size=3).map(tuple),
    memory=st.none() | st.integers(1, 8),
    count=st.integers(1, 2),
)
def test_who_is_let_pass_fits_whatever_became_of_the_others(
    devices: Sizes, others: Sizes, memory: int | None, count: int
) -> None:
    cluster, doubts = small(devices), UnconfirmedPods()
    for number, size in enumerate(others):
        doubts.add(f"other-{number}", ask(cluster, size), cluster.rows(), 0.0)
    if lets_pass(cluster, doubts, ask(cluster, memory, count)):
        assert always_fits(devices, others, memory, count)


def test_with_nobody_in_doubt_nothing_is_held_against_a_node() -> None:
    cluster, doubts = small((4, 4)), UnconfirmedPods()
    assert not doubts.may_hold_pods(cluster.rows()).any()
    assert lets_pass(cluster, doubts, ask(cluster, 4, 2))


def test_an_accelerator_too_many_or_room_for_both_is_enough() -> None:
    for devices, passes in (((4,), False), ((4, 4), True), ((6,), True), ((5,), False)):
        cluster, doubts = small(devices), UnconfirmedPods()
        doubts.add("a", ask(cluster, 3), cluster.rows(), 0.0)
        assert lets_pass(cluster, doubts, ask(cluster, 3)) is passes, devices


def test_who_shares_the_nodes_memory_is_counted_there() -> None:
    shared = DeviceState("gpu", "t4", memory=Bytes(8), unified=True)
    cluster, doubts = EngineCluster([NodeState(NODE, 1000, Bytes(8), devices=(shared,))]), UnconfirmedPods()
    asked = CompiledRequest(cluster, Request("p", memory=Bytes(3), demand=Demand(1, Bytes(3))))
    assert lets_pass(cluster, doubts, asked)
    doubts.add("a", ask(cluster, 3), cluster.rows(), 0.0)
    assert not lets_pass(cluster, doubts, asked)


def test_doubts_end_when_dropped_or_old_and_count_once() -> None:
    cluster, doubts = small((4,)), UnconfirmedPods()
    rows = cluster.rows()
    for _ in range(2):
        doubts.add("a", ask(cluster, 3), rows, 0.0)
    assert len(doubts) == 1
    doubts.expire(EXPIRES_AFTER)
    assert doubts.may_hold_pods(rows).all()
    doubts.expire(EXPIRES_AFTER + 1)
    doubts.drop("a")
    assert len(doubts) == 0
    assert not doubts.may_hold_pods(rows).any()


def test_nodes_that_came_later_are_in_no_doubt() -> None:
    cluster, doubts = small((4,)), UnconfirmedPods()
    doubts.add("a", ask(cluster, 3), cluster.rows(), 0.0)
    later = np.array([cluster.columns.size + 5], np.int64)
    assert not doubts.may_hold_pods(later).any()
