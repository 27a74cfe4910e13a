"""Any sequence of events leaves the same state as one built from scratch, and no node over-committed."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from fairlead.need import Need
from fairlead.placement import NodeState, share_of
from fairlead.request import Gang, Request
from fairlead.schedule import POLICIES, EngineCluster, decide, place, place_all, place_gang, preempt
from fairlead.schedule.score.score_cache import ScoreCache
from tests import strategies
from tests.schedule.clusters import equal

policies = st.sampled_from(sorted(POLICIES))


class Events(RuleBasedStateMachine):
    """Nodes and requests are added, changed, removed and evicted; some of it is rolled back."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.cluster = EngineCluster()
        self.count = 0
        self.before: tuple[int, EngineCluster] | None = None

    @rule(node=strategies.node_states())
    def put(self, node: NodeState) -> None:
        occupied = any(
            placement.request for placement in self.cluster.placements() if placement.node == node.name
        )
        if (
            not occupied
        ):  # a node that shrinks below its placements would be over-committed by the test itself
            self.cluster.put(node)

    @rule(at=st.integers(0, 5))
    def remove(self, at: int) -> None:
        if self.cluster.node(f"n{at}"):
            removed = self.cluster.remove(f"n{at}")
            for placement in removed:  # the rest of their gangs is released as well
                self._disband(placement.request)

    @rule(request=strategies.requests(), policy=policies)
    def place(self, request: Request, policy: str) -> None:
        self.count += 1
        named = replace(request, name=f"p{self.count}")
        decision = place(self.cluster, named, policy)
        assert decision.placed or decision.rejections
        if not decision.placed and decision.among:
            assert sum(rejection.count for rejection in decision.rejections) == decision.among

    @rule(
        request=strategies.requests(),
        priorities=st.lists(st.integers(0, 3), min_size=1, max_size=4),
        policy=policies,
        preemption=st.booleans(),
    )
    def gang(self, request: Request, priorities: list[int], policy: str, preemption: bool) -> None:
        self.count += 1
        size, before = len(priorities), {each.request.id: each for each in self.cluster.placements()}
        members = [
            replace(request, name=f"g{self.count}-{at}", gang=Gang(f"g{self.count}", size), priority=priority)
            for at, priority in enumerate(priorities)
        ]
        decisions = place_gang(self.cluster, members, policy, preemption=preemption)
        assert len({decision.placed for decision in decisions}) == 1
        evicted = set(before) - {each.request.id for each in self.cluster.placements()}
        assert evicted == {victim for decision in decisions for victim in decision.victims}
        assert all(before[each].request.priority < max(priorities) for each in evicted)

    @rule(request=strategies.requests(), policy=policies)
    def preempt(self, request: Request, policy: str) -> None:
        self.count += 1
        named = replace(request, name=f"v{self.count}")
        decision = preempt(self.cluster, named, policy)
        for victim in decision.victims:
            placement = self.cluster.release(victim)
            assert placement.request.priority < named.priority
        if decision.placement:
            self.cluster.bind(decision.placement)

    @rule(at=st.integers(0, 30))
    def release(self, at: int) -> None:
        placements = self.cluster.placements()
        if placements:
            request = placements[at % len(placements)].request
            self.cluster.release(request.id)
            self._disband(request)

    @rule(at=st.integers(0, 30), need=strategies.needs())
    def rebook(self, at: int, need: Need) -> None:
        placements = self.cluster.placements()
        if not placements:
            return
        placement = placements[at % len(placements)]
        request, row = replace(placement.request, need=need), self.cluster.row(placement.node)
        devices = [self.cluster.device_named(row, share.device) for share in placement.shares]
        shares = tuple(
            share if share.whole else share_of(request, device)
            for share, device in zip(placement.shares, devices, strict=True)
        )
        after = self.cluster.rebook(request.id, shares, request)
        assert self.cluster.placement(request.id) == after
        free = self.cluster.free(placement.node)
        if min([free.memory, *(device.memory for device in free.devices)]) < 0:
            self.cluster.release(request.id)  # pods may grow beyond what there is; the guard evicts one
            self._disband(request)

    @rule()
    def checkpoint(self) -> None:
        if self.before is None:
            copy = EngineCluster(self.cluster.nodes(), self.cluster.placements())
            self.before = self.cluster.checkpoint(), copy

    @rule()
    def rollback(self) -> None:
        if self.before is not None:
            mark, copy = self.before
            self.cluster.rollback(mark)
            self.before = None
            assert equal(self.cluster, copy)

    @invariant()
    def is_as_if_built_from_scratch(self) -> None:
        scratch = EngineCluster(self.cluster.nodes(), self.cluster.placements())
        assert equal(self.cluster, scratch)
        for cache in list(self.cluster.memo.values()):
            if isinstance(cache, ScoreCache):
                cache.refresh()
                fresh = ScoreCache(self.cluster, cache.compiled.request, cache.policy)
                fresh.refresh()
                assert np.array_equal(cache.score, fresh.score)
                probe = replace(cache.compiled.request, name="probe")
                assert decide(self.cluster, probe, cache.policy) == decide(scratch, probe, cache.policy)

    @invariant()
    def nothing_is_over_committed(self) -> None:
        for node in self.cluster.nodes():
            free = self.cluster.free(node.name)
            assert min(free.cpu, free.memory, free.pods, 0) == 0
            assert all(device.memory >= 0 and device.compute >= 0 for device in free.devices)

    @invariant()
    def a_gang_is_whole_or_absent(self) -> None:
        gangs: dict[Gang, int] = {}
        for placement in self.cluster.placements():
            if placement.request.gang:
                gangs[placement.request.gang] = gangs.get(placement.request.gang, 0) + 1
        assert all(count >= gang.size for gang, count in gangs.items())

    def _disband(self, request: Request) -> None:
        for placement in self.cluster.placements():
            if request.gang and placement.request.gang == request.gang:
                self.cluster.release(placement.request.id)


TestEvents = Events.TestCase
TestEvents.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@given(
    st.lists(strategies.node_states(), max_size=5, unique_by=lambda node: node.name),
    st.lists(strategies.requests(inter_pod=False), max_size=8, unique_by=lambda request: request.name),
    st.permutations([f"m{at}" for at in range(6)]),
    st.sampled_from(["fairlead", "binpack", "spread", "fastest"]),
)
@settings(max_examples=100, deadline=None)
def test_names_do_not_decide_placements(
    nodes: list[NodeState], requests: list[Request], names: list[str], policy: str
) -> None:
    other = {node.name: name for node, name in zip(nodes, names, strict=False)}
    renamed = [replace(node, name=other[node.name]) for node in nodes]
    one = place_all(EngineCluster(nodes), requests, policy, preemption=False)
    two = place_all(EngineCluster(renamed), requests, policy, preemption=False)
    for here, there in zip(one, two, strict=True):
        assert here.placed == there.placed
        if here.placement and there.placement:
            assert other[here.placement.node] == there.placement.node
            assert here.placement.shares == there.placement.shares


@given(
    st.lists(strategies.node_states(), max_size=5, unique_by=lambda node: node.name),
    st.lists(strategies.requests(), max_size=8, unique_by=lambda request: request.name),
)
@settings(max_examples=60, deadline=None)
def test_a_decision_changes_no_state(nodes: list[NodeState], requests: list[Request]) -> None:
    cluster = EngineCluster(nodes)
    for request in requests:
        first = decide(cluster, request)
        assert decide(cluster, request) == first
        place(cluster, request)
