"""A survey agrees with the decisions of the engine, and every refused node has a reason."""

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
    nodes=st.lists(strategies.node_states(), max_size=4, unique_by=lambda node: node.name),
    request=strategies.requests(inter_pod=False),
)
def test_a_node_fits_where_the_engine_would_place_it_alone(nodes: list[NodeState], request: Request) -> None:
    cluster = EngineCluster(nodes)
    surveyed = survey(cluster, request, POLICY, [node.name for node in nodes])
    alone = [decide(EngineCluster([node]), request, POLICY).placed for node in nodes]
    assert surveyed.fits.tolist() == alone


@given(
    nodes=st.lists(strategies.node_states(), min_size=1, max_size=4, unique_by=lambda node: node.name),
    demand=strategies.demands(),
)
def test_every_refusal_has_a_reason_of_its_own_node(nodes: list[NodeState], demand: Demand) -> None:
    cluster, request = EngineCluster(nodes), Request("p", demand=demand)
    surveyed = survey(cluster, request, POLICY, [node.name for node in nodes])
    rows = surveyed.rows[~surveyed.fits]
    if not demand.count or not len(rows):
        return
    refusals = diagnose_nodes(surveyed.compiled, rows)
    for row, which in zip(rows.tolist(), refusals.which.tolist(), strict=True):
        state = cluster.node(cluster.name(row))
        assert state is not None
        alone = decide(EngineCluster([state]), request, POLICY)
        assert refusals.reasons[which].reason in {rejection.reason for rejection in alone.rejections}


def test_the_reason_of_a_node_is_that_of_its_last_candidate() -> None:
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
    surveyed = survey(cluster, Request("q", demand=request.demand), POLICY, names)
    assert not surveyed.fits.any()
    assert surveyed.rows[-1] == ABSENT
    refusals = diagnose_nodes(surveyed.compiled, surveyed.rows[:-1])
    reasons = [refusals.reasons[index].reason for index in refusals.which.tolist()]
    assert reasons == [Reason.NO_DEVICE, Reason.MODEL, Reason.DEVICE_MEMORY, Reason.DEVICE_MEMORY]
    assert refusals.for_good.tolist() == [True, True, False, True]


def test_a_survey_of_no_nodes_is_empty() -> None:
    surveyed = survey(EngineCluster(), Request("p", demand=Demand(1)), POLICY, [])
    assert surveyed.score.tolist() == []
    assert not np.any(surveyed.fits)


def test_scores_are_ranks_from_ten_downwards() -> None:
    assert ranks(np.array([5.0, -np.inf, 7.0, 5.0, 1.0]), 10).tolist() == [9, 0, 10, 9, 8]
    assert ranks(np.arange(13.0), 10).tolist() == [0, 0, 0, *range(1, 11)]
    assert ranks(np.full(2, -np.inf), 10).tolist() == [0, 0]
    assert ranks(np.zeros(0), 10).tolist() == []
