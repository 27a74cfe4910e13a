"""What each node says agrees with what the engine decides, and every refusal has its reason."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead.placement import DeviceState, NodeState, Reason
from fairlead.request import Demand, Request
from fairlead.schedule import EngineCluster, decide, place, policy_named
from fairlead.schedule.score.survey import diagnose_nodes, ranks, survey
from fairlead.schedule.state.cluster import ABSENT
from fairlead.units import Bytes
from tests import strategies

POLICY = policy_named("fairlead")


def gpu(name: str, memory: int, model: str = "t4") -> DeviceState:
    return DeviceState(name, model, "nvidia", Bytes(memory))


def node(name: str, *devices: DeviceState) -> NodeState:
    return NodeState(name, 1000, Bytes(1000), devices=devices)


@given(
    nodes=st.lists(strategies.node_states(), max_size=4, unique_by=lambda each: each.name),
    request=strategies.requests(inter_pod=False),
)
def test_a_node_fits_where_the_engine_would_place_it_alone(nodes: list[NodeState], request: Request) -> None:
    cluster = EngineCluster(nodes)
    found = survey(cluster, request, POLICY, [each.name for each in nodes])
    alone = [decide(EngineCluster([each]), request, POLICY).placed for each in nodes]
    assert found.fits.tolist() == alone


@given(
    nodes=st.lists(strategies.node_states(), min_size=1, max_size=4, unique_by=lambda each: each.name),
    demand=strategies.demands(),
)
def test_every_refusal_has_a_reason_of_its_own_node(nodes: list[NodeState], demand: Demand) -> None:
    cluster, request = EngineCluster(nodes), Request("p", demand=demand)
    found = survey(cluster, request, POLICY, [each.name for each in nodes])
    rows = found.rows[~found.fits]
    if not demand.count or not len(rows):
        return
    against = diagnose_nodes(found.compiled, rows)
    for row, which in zip(rows.tolist(), against.which.tolist(), strict=True):
        state = cluster.node(cluster.name(row))
        assert state is not None
        alone = decide(EngineCluster([state]), request, POLICY)
        assert against.reasons[which].reason in {rejection.reason for rejection in alone.rejections}


def test_a_node_is_refused_for_what_its_nearest_accelerator_lacks() -> None:
    cluster = EngineCluster(
        [
            node("full", gpu("x", 8, "a10"), gpu("y", 2)),
            node("other", gpu("x", 8, "a10")),
            node("none"),
            node("small", gpu("x", 1)),
        ]
    )
    names = ["none", "other", "full", "small", "away"]
    request = Request("p", demand=Demand(1, Bytes(2), models=("t4",)))
    assert place(cluster, request, POLICY).placed
    found = survey(cluster, Request("q", demand=request.demand), POLICY, names)
    assert not found.fits.any()
    assert found.rows[-1] == ABSENT
    against = diagnose_nodes(found.compiled, found.rows[:-1])
    reasons = [against.reasons[each].reason for each in against.which.tolist()]
    assert reasons == [Reason.NO_DEVICE, Reason.MODEL, Reason.DEVICE_MEMORY, Reason.DEVICE_MEMORY]
    assert against.for_good.tolist() == [True, True, False, True]


def test_nobody_asked_is_nobody_refused() -> None:
    found = survey(EngineCluster(), Request("p", demand=Demand(1)), POLICY, [])
    assert found.score.tolist() == []
    assert not np.any(found.fits)


def test_scores_are_ranks_from_ten_downwards() -> None:
    assert ranks(np.array([5.0, -np.inf, 7.0, 5.0, 1.0]), 10).tolist() == [9, 0, 10, 9, 8]
    assert ranks(np.arange(13.0), 10).tolist() == [0, 0, 0, *range(1, 11)]
    assert ranks(np.full(2, -np.inf), 10).tolist() == [0, 0]
    assert ranks(np.zeros(0), 10).tolist() == []
