"""A request that passes fits wherever the unconfirmed pods are."""

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


def compile_request(cluster: EngineCluster, memory: int | None, count: int = 1) -> CompiledRequest:
    size = None if memory is None else Bytes(memory)
    return CompiledRequest(cluster, Request("p", demand=Demand(count, size)))


def small(devices: Sizes) -> EngineCluster:
    accelerators = tuple(
        DeviceState(f"gpu-{at}", "t4", memory=Bytes(size)) for at, size in enumerate(devices)
    )
    return EngineCluster([NodeState(NODE, 1000, Bytes(1000), devices=accelerators)])


def passes(cluster: EngineCluster, unconfirmed: UnconfirmedPods, compiled: CompiledRequest) -> bool:
    rows, free = filter_rows(compiled, cluster.rows())
    return bool(len(rows)) and bool(unconfirmed.rows_with_room(compiled, rows, free).all())


def always_fits(devices: Sizes, others: Sizes, memory: int | None, count: int) -> bool:
    """Return whether the request fits, whichever accelerator each other pod gets, or none here."""
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
def test_a_certain_fit_holds_wherever_the_unconfirmed_pods_are(
    devices: Sizes, others: Sizes, memory: int | None, count: int
) -> None:
    cluster, unconfirmed = small(devices), UnconfirmedPods()
    for number, size in enumerate(others):
        unconfirmed.add(f"other-{number}", compile_request(cluster, size), cluster.rows(), 0.0)
    if passes(cluster, unconfirmed, compile_request(cluster, memory, count)):
        assert always_fits(devices, others, memory, count)


def test_without_unconfirmed_pods_every_free_node_has_room() -> None:
    cluster, unconfirmed = small((4, 4)), UnconfirmedPods()
    assert not unconfirmed.may_hold_pods(cluster.rows()).any()
    assert passes(cluster, unconfirmed, compile_request(cluster, 4, 2))


def test_a_spare_accelerator_or_room_for_both_pods_suffices() -> None:
    for devices, expected in (((4,), False), ((4, 4), True), ((6,), True), ((5,), False)):
        cluster, unconfirmed = small(devices), UnconfirmedPods()
        unconfirmed.add("a", compile_request(cluster, 3), cluster.rows(), 0.0)
        assert passes(cluster, unconfirmed, compile_request(cluster, 3)) is expected, devices


def test_unified_memory_of_unconfirmed_pods_counts_on_the_node() -> None:
    shared = DeviceState("gpu", "t4", memory=Bytes(8), unified=True)
    cluster, unconfirmed = (
        EngineCluster([NodeState(NODE, 1000, Bytes(8), devices=(shared,))]),
        UnconfirmedPods(),
    )
    compiled = CompiledRequest(cluster, Request("p", memory=Bytes(3), demand=Demand(1, Bytes(3))))
    assert passes(cluster, unconfirmed, compiled)
    unconfirmed.add("a", compile_request(cluster, 3), cluster.rows(), 0.0)
    assert not passes(cluster, unconfirmed, compiled)


def test_an_unconfirmed_pod_counts_once_until_it_is_dropped_or_expires() -> None:
    cluster, unconfirmed = small((4,)), UnconfirmedPods()
    rows = cluster.rows()
    for _ in range(2):
        unconfirmed.add("a", compile_request(cluster, 3), rows, 0.0)
    assert len(unconfirmed) == 1
    unconfirmed.expire(EXPIRES_AFTER)
    assert unconfirmed.may_hold_pods(rows).all()
    unconfirmed.expire(EXPIRES_AFTER + 1)
    unconfirmed.drop("a")
    assert len(unconfirmed) == 0
    assert not unconfirmed.may_hold_pods(rows).any()


def test_newer_nodes_hold_no_unconfirmed_pods() -> None:
    cluster, unconfirmed = small((4,)), UnconfirmedPods()
    unconfirmed.add("a", compile_request(cluster, 3), cluster.rows(), 0.0)
    later = np.array([cluster.columns.size + 5], np.int64)
    assert not unconfirmed.may_hold_pods(later).any()
