"""The queueing hint never rejects a node on which the engine places the request."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fairlead.placement import NodeState, Placement
from fairlead.request import Demand, Request
from fairlead.schedule import EngineCluster, decide, place
from fairlead.schedule.filter.hints import resource_fit_hint
from tests import strategies
from tests.schedule.clusters import gib, gpu, node, share


def test_a_request_for_no_cpu_fits_a_node_whose_cpu_is_over_committed() -> None:
    full = Placement(Request("full", cpu=9000, memory=gib(40)), "n0")
    cluster = EngineCluster([node("n0", gpu())], [full])
    assert cluster.free("n0").cpu < 0
    assert decide(cluster, share("a", 4)).placed
    assert resource_fit_hint(share("a", 4), cluster.free("n0"))
    assert not resource_fit_hint(share("a", 4, cpu=1), cluster.free("n0"))


def test_the_hint_compares_amounts_alone() -> None:
    cluster = EngineCluster([node("n0", gpu(0), gpu(1))])
    place(cluster, share("held", 10))
    free = cluster.free("n0")
    assert not resource_fit_hint(Request("a", demand=Demand(2, memory=gib(8))), free)
    assert resource_fit_hint(Request("a", demand=Demand(2, memory=gib(6))), free)
    assert not resource_fit_hint(Request("a", demand=Demand(2)), free)
    assert resource_fit_hint(Request("a", demand=Demand(1)), free)


@given(
    node_states=st.lists(strategies.node_states(), min_size=1, max_size=4),
    requests=st.lists(strategies.requests(), min_size=1, max_size=8),
    strain=st.booleans(),
)
def test_the_hint_passes_every_node_on_which_the_engine_places(
    node_states: list[NodeState], requests: list[Request], strain: bool
) -> None:
    states = {node_state.name: node_state for node_state in node_states}
    held = [Placement(Request(f"s-{name}", cpu=10**9), name) for name in states] if strain else []
    cluster = EngineCluster(states.values(), held)
    for at, request in enumerate(requests):
        named = replace(request, name=f"p{at}")
        free = {name: cluster.free(name) for name in states}
        placement = place(cluster, named, "fairlead").placement
        if placement is not None:
            assert resource_fit_hint(named, free[placement.node])
