"""Needs: pods count by the memory that they are expected to hold, within an out-of-memory bound."""

import random
from dataclasses import replace
from math import exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.need import HEADROOM, Need, effective_size, headroom
from fairlead.placement import Placement, Reason, parse_shares, share_of
from fairlead.request import Demand, Expectation, Request, problems
from fairlead.schedule import EngineCluster, decide, place, place_all, place_gang, preempt, with_suggestions
from fairlead.schedule.decision.decide import LARGE
from fairlead.schedule.filter.hints import resource_fit_hint
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from tests import strategies
from tests.schedule.clusters import gib, gpu, node, servers, share

SAFE = "fairlead-safe"
EVEN = Need((gib(4), gib(5)), (0.5, 0.5))


def soft(name: str, need: Need = EVEN, **more: object) -> Request:
    return replace(share(name, 8), need=need, **more)  # type: ignore[arg-type]


def fixed(name: str, size: float, *, firm: bool) -> Request:
    return soft(name, Need.fixed(gib(size), firm=firm))


def free_of(cluster: EngineCluster, name: str = "n0") -> int:
    return cluster.free(name).devices[0].memory


def test_a_soft_pod_counts_by_its_effective_size_and_leaves_headroom() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    decision = place(cluster, soft("a"), SAFE)
    assert decision.placement is not None
    (taken,) = decision.placement.shares
    # Chernoff with s = ln(1000) / 2.4 GiB: e = ln((e^4s + e^5s) / 2) / s, between the mean and the peak.
    rate = log(1000) / headroom(gib(16))
    expected = log(0.5 * exp(rate * (gib(4) - gib(5))) + 0.5) / rate + gib(5)
    assert taken.memory == pytest.approx(expected, abs=2)
    assert gib(4.5) < taken.memory < gib(5)
    assert taken.soft
    assert free_of(cluster) == gib(16) - int(HEADROOM * gib(16)) - taken.memory
    cluster.release("default/a")
    assert free_of(cluster) == gib(16)


def test_the_headroom_is_kept_once() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    for name in "abc":
        place(cluster, fixed(name, 3, firm=False), SAFE)
    assert free_of(cluster) == gib(16) - headroom(gib(16)) - 3 * gib(3)
    assert cluster.free("n0").devices[0].soft
    cluster.release("default/a")
    cluster.release("default/b")
    assert free_of(cluster) == gib(16) - headroom(gib(16)) - gib(3)


def test_firm_pods_need_no_headroom_until_a_soft_one_is_there() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    assert place(cluster, fixed("a", 8, firm=True), SAFE).placed
    assert decide(cluster, fixed("b", 8, firm=True), SAFE).placed
    assert place(cluster, fixed("c", 5, firm=False), SAFE).placed  # 13 GiB and 2.4 of headroom
    assert not decide(cluster, fixed("d", 1, firm=True), SAFE).placed
    assert not decide(cluster, share("plain", 1), SAFE).placed
    assert not decide(cluster, share("plain", 1), "fairlead").placed
    assert decide(cluster, fixed("d", 0.5, firm=True), SAFE).placed


def test_a_refusal_says_whether_memory_or_only_headroom_is_missing() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    place(cluster, fixed("a", 12, firm=False), SAFE)
    refused = decide(cluster, fixed("b", 2, firm=False), SAFE)  # 4 GiB are left, 1.6 GiB after headroom
    assert [rejection.reason for rejection in refused.rejections] == [Reason.MEMORY_BOUND]
    assert refused.sentence() == (
        "0 of 1 accelerators can take b: 1 would exceed the out-of-memory bound "
        "(need 2.0 GiB, most 1.6 GiB free after headroom)"
    )
    assert [each.reason for each in decide(cluster, fixed("b", 5, firm=False), SAFE).rejections] == [
        Reason.DEVICE_MEMORY
    ]
    changes = with_suggestions(cluster, refused).changes
    assert [change.text for change in changes if change.field == "demand.memory"] == [
        "limit it to 1.6 GiB of the accelerator's memory (its peak is 2.0 GiB)"
    ]
    assert not decide(cluster, fixed("b", 1.61, firm=True), SAFE).placed
    assert decide(cluster, fixed("b", 1.6, firm=True), SAFE).placed


def test_whole_accelerators_and_unknown_memory_ignore_needs() -> None:
    need = Need.fixed(gib(1))
    whole = Request("w", demand=Demand(1), need=need)
    assert share_of(whole, gpu()) == DeviceShare("gpu-0", gib(16), 1000, whole=True)
    part = Request("c", demand=Demand(1, compute=100), need=need)
    assert share_of(part, gpu(memory=0)) == DeviceShare("gpu-0", Bytes(0), 100)
    assert share_of(part, gpu()).memory == gib(1)


def test_softness_is_part_of_no_format() -> None:
    taken = share_of(soft("a"), gpu())
    assert taken.soft
    assert "soft" not in taken.to_json()
    from_annotation = parse_shares(
        '{"v": 1, "shares": [{"device": "gpu-0", "memory_bytes": 1, "compute_milli": 0, "whole": false}]}'
    )
    assert from_annotation is None or from_annotation == (DeviceShare("gpu-0", Bytes(1), soft=True),)


@pytest.mark.parametrize(
    ("need", "text"),
    [
        (Need((), ()), "need: 0 sizes and 0 weights"),
        (Need((gib(2), gib(1)), (0.5, 0.5)), "need: the sizes are not ascending amounts"),
        (Need((gib(1),), (0.5,)), "need: the weights add up to 0.5 instead of 1"),
        (Need((gib(1),), (1.0,), bound=0.0), "need: the bound 0 is no probability"),
        (EVEN, None),
        (Need.fixed(Bytes(0)), None),
    ],
)
def test_an_invalid_need_is_refused(need: Need, text: str | None) -> None:
    assert problems(soft("a", need)) == ((text,) if text else ())


# Rebooking


def test_a_bound_pod_is_rebooked_and_rolled_back() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    place(cluster, soft("a"), SAFE)
    before = free_of(cluster)
    mark = cluster.checkpoint()
    grown = replace(soft("a"), need=Need.fixed(gib(20), firm=False))
    after = cluster.rebook("default/a", (share_of(grown, gpu()),), grown)
    assert after.request.need == grown.need
    assert free_of(cluster) == gib(16) - headroom(gib(16)) - gib(20)  # a fact, though there is less
    cluster.rebook("default/a", (DeviceShare("gpu-0", gib(3)),))
    assert free_of(cluster) == gib(13)  # with a limit the pod is firm
    cluster.rollback(mark)
    assert free_of(cluster) == before
    assert cluster.placement("default/a") == Placement(soft("a"), "n0", (share_of(soft("a"), gpu()),))


def test_a_smaller_size_makes_room_that_was_refused_before() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    place(cluster, fixed("a", 10, firm=False), SAFE)
    late = fixed("b", 5, firm=False)
    assert not decide(cluster, late, SAFE).placed
    cluster.rebook("default/a", (share_of(fixed("a", 8, firm=False), gpu()),))
    assert decide(cluster, late, SAFE).placed


# The rest of the engine


def test_members_of_a_gang_share_one_headroom() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    members = [fixed(f"m{at}", 3.39, firm=False) for at in range(5)]
    assert [each.placed for each in place_all(cluster, members, SAFE)] == [True] * 4 + [False]
    cluster = EngineCluster([node("n0", gpu())])
    assert all(each.placed for each in place_gang(cluster, members[:4], SAFE))
    assert free_of(cluster) == gib(16) - headroom(gib(16)) - 4 * gib(3.39)


def test_preemption_knows_that_the_headroom_goes_with_the_last_soft_pod() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    place(cluster, fixed("low", 10, firm=False), SAFE)
    urgent = replace(share("urgent", 16), priority=1)
    decision = preempt(cluster, urgent, SAFE)
    assert decision.placed
    assert decision.victims == ("default/low",)
    too_large = replace(fixed("soft", 14, firm=False), priority=1)
    assert not preempt(cluster, too_large, SAFE).placed  # with its headroom it needs 16.4 GiB


def test_in_a_large_cluster_sizes_are_rounded_for_the_search_and_exact_in_the_placement() -> None:
    cluster = EngineCluster(servers(LARGE // 8 + 1, 8, cpu=96_000, memory=gib(400)))
    pods = [soft(f"p{at}", Need((gib(4 + at / 50), gib(6)), (0.7, 0.3))) for at in range(20)]
    for pod in pods:
        placement = place(cluster, pod, SAFE).placement
        assert placement is not None
        assert pod.need is not None
        assert placement.shares[0].memory == effective_size(pod.need, gib(16))
        assert placement.shares[0].soft
    assert sum(key[0] == "scores" for key in cluster.memo if isinstance(key, tuple)) == 1


@given(strategies.needs(), st.lists(strategies.needs(), max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_hint_never_denies_a_fit(need: Need, others: list[Need]) -> None:
    cluster = EngineCluster([node("n0", gpu())])
    for at, other in enumerate(others):
        place(cluster, soft(f"o{at}", other), SAFE)
    fits = decide(cluster, soft("a", need), SAFE).placed
    assert resource_fit_hint(soft("a", need), cluster.free("n0")) == fits


# The sum rule, and what it promises


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), strategies.needs()), max_size=30))
@settings(max_examples=80, deadline=None)
def test_accepted_placements_keep_the_sum_rule(steps: list[tuple[int, int, Need]]) -> None:
    """Any sequence of bind, rebook, release and rollback: what is accepted leaves room for the headroom."""
    cluster, devices = EngineCluster([node("n0", gpu(), cpu=10**6)]), {"gpu-0": gpu()}
    for count, (step, at, need) in enumerate(steps):
        bound = cluster.placements()
        if step == 0 or not bound:
            if place(cluster, soft(f"p{count}", need), SAFE).placed:
                assert _counted(cluster) <= gib(16)
        elif step == 1:
            chosen = bound[at % len(bound)]
            request = replace(chosen.request, need=need)
            cluster.rebook(request.id, (share_of(request, devices["gpu-0"]),), request)
        elif step == 2:
            cluster.release(bound[at % len(bound)].request.id)
        else:
            before, mark = _counted(cluster), cluster.checkpoint()
            place(cluster, soft(f"p{count}", need), SAFE)
            cluster.release(bound[at % len(bound)].request.id)
            cluster.rollback(mark)
            assert _counted(cluster) == before
        assert free_of(cluster) == gib(16) - _counted(cluster)


def _counted(cluster: EngineCluster) -> int:
    """Return the sum of effective sizes, from the needs themselves, and the headroom beside soft ones."""
    needs = [each.request.need for each in cluster.placements() if each.request.need]
    spare = headroom(gib(16)) if any(not need.firm for need in needs) else 0
    return sum(effective_size(need, gib(16)) for need in needs) + spare


@pytest.mark.parametrize("bound", [0.1, 0.01])
def test_independent_needs_exceed_an_accelerator_no_more_often_than_the_bound(bound: float) -> None:
    chance = random.Random(7)
    violations, samples, packed = 0, 0, 0.0
    for _ in range(40):
        cluster = EngineCluster([node("n0", gpu(), cpu=10**6)])
        while place(cluster, soft(f"p{len(cluster.placements())}", _need(chance, bound)), SAFE).placed:
            pass
        needs = [each.request.need for each in cluster.placements() if each.request.need]
        packed += sum(need.peak for need in needs) / gib(16)
        draws = [chance.choices(need.sizes, need.weights, k=500) for need in needs]
        violations += sum(sum(sample) > gib(16) for sample in zip(*draws, strict=True))
        samples += 500
    assert violations / samples <= bound
    assert packed / 40 > 1.15, "the peaks fit as well: nothing was tested"


def _need(chance: random.Random, bound: float) -> Need:
    """Return a soft need of four sizes up to 2 GiB, mostly far below its peak."""
    sizes = sorted(chance.sample(range(100, 2000), 4))
    weights = (0.5, 0.3, 0.15, 0.05)
    return Need(tuple(Bytes(size << 20) for size in sizes), weights, bound=bound)


# Interference


def with_slo(name: str, slo: float, **more: object) -> Request:
    estimates = {"t4": Expectation(0.010)}
    return replace(share(name, 1), slo=slo, estimates=estimates, **more)  # type: ignore[arg-type]


def test_a_pod_is_not_placed_where_a_holder_would_miss_its_slo() -> None:
    cluster = EngineCluster([node("n0", gpu()), node("n1", gpu())])
    # It tolerates twice its 10 ms. Beside two co-runners p99 is 1.2 * (1 + 0.8 * 2 / 3) = 1.84 times that,
    # beside three 1.3 * (1 + 0.8 * 3 / 4) = 2.08 times.
    place(cluster, with_slo("fast", 0.020), SAFE)
    here = [place(cluster, share(f"p{at}", 1), SAFE).placement for at in range(4)]
    assert [each.node for each in here if each] == ["n0", "n0", "n1", "n1"]
    assert decide(cluster, share("p4", 1), "fairlead").placed
    cluster.release("default/fast")
    assert cluster.columns.tolerance[cluster.row("n0"), 0] == float("inf")


def test_a_pod_is_not_placed_where_it_would_miss_its_own_slo() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    for at in range(2):
        place(cluster, share(f"p{at}", 1), SAFE)
    assert decide(cluster, with_slo("a", 0.0185), SAFE).placed  # 1.2 * (1 + 0.8 * 2 / 3) times 10 ms
    refused = decide(cluster, with_slo("a", 0.0183), SAFE)
    assert [rejection.reason for rejection in refused.rejections] == [Reason.SLOWDOWN]
    assert refused.rejections[0].need == pytest.approx(1.84)
    assert refused.rejections[0].most == pytest.approx(1.83)
    texts = [change.text for change in with_suggestions(cluster, refused).changes]
    assert "allow 18.4 ms instead of 18.3 ms" in texts
    assert decide(cluster, with_slo("a", 0.0183), "fairlead").placed


def test_co_runners_cost_less_under_mps() -> None:
    mps = {"nvidia.com/gpu.sharing-strategy": "mps"}
    cluster = EngineCluster([node("plain", gpu()), node("side-by-side", gpu(), labels=mps)])
    for at in range(8):
        place(cluster, share(f"p{at}", 1), "spread")  # four on each
    # Four co-runners: 1.4 * (1 + 0.8 * 4 / 5) = 2.30 times, or under MPS 1.1 * (1 + 0.25 * 4 / 5) = 1.32.
    placement = decide(cluster, with_slo("a", 0.0133), SAFE).placement
    assert placement is not None
    assert placement.node == "side-by-side"
    assert not decide(cluster, with_slo("a", 0.0131), SAFE).placed


def test_measured_load_saturates_an_accelerator() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    place(cluster, share("busy", 1), SAFE)
    pod = with_slo("a", 0.021, busy=0.5)
    assert decide(cluster, pod, SAFE).placed  # 1.1 * 1.4 = 1.54
    cluster.set_measured_busy("n0", "gpu-0", 0.9)
    assert not decide(cluster, pod, SAFE).placed  # 1.54 * (0.9 + 0.5) = 2.16
    cluster.set_measured_busy("n0", "gpu-0", 0.8)
    assert decide(cluster, pod, SAFE).placed  # 1.54 * (0.8 + 0.5) = 2.00
    cluster.put(node("n0", gpu(), cpu=4000))
    assert cluster.columns.busy[cluster.row("n0"), 0] == 0.8
    cluster.set_measured_busy("n0", "gpu-0", None)
    assert cluster.columns.busy[cluster.row("n0"), 0] == 0.0


# Measured free memory


@pytest.mark.parametrize("policy", ["cbp", "pp", "cbp+pp", "cbp-knots"])
def test_a_published_policy_takes_measured_free_memory(policy: str) -> None:
    cluster = EngineCluster([node("n0", gpu())])
    place(cluster, share("a", 12), policy)
    late = share("b", 6)
    assert not decide(cluster, late, policy).placed
    cluster.set_measured_free("n0", "gpu-0", gib(6))
    assert decide(cluster, late, policy).placed
    assert not decide(cluster, late, "fairlead").placed
    assert not decide(cluster, late, "res-ag").placed
    assert not decide(cluster, share("c", 6.1), policy).placed
    assert resource_fit_hint(late, cluster.free("n0"))
    cluster.set_measured_free("n0", "gpu-0", None)
    assert not decide(cluster, late, policy).placed


def test_a_grant_holds_for_one_placement() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    place(cluster, share("a", 12), "cbp")
    cluster.set_measured_free("n0", "gpu-0", gib(6))
    mark = cluster.checkpoint()
    decision = decide(cluster, share("b", 6), "cbp")
    assert decision.placement is not None
    cluster.bind(decision.placement)
    assert not decide(cluster, share("c", 1), "cbp").placed
    cluster.rollback(mark)
    assert decide(cluster, share("b", 6), "cbp").placed


def test_requests_leave_more_than_was_measured() -> None:
    cluster = EngineCluster([node("n0", gpu())])
    cluster.set_measured_free("n0", "gpu-0", gib(1))
    cluster.set_measured_free("gone", "gpu-0", gib(1))  # measured, and not in the cluster
    cluster.set_measured_free("n0", "gone", gib(1))
    assert decide(cluster, share("a", 16), "cbp").placed


def test_published_policies_place_the_largest_first_where_most_is_free() -> None:
    cluster = EngineCluster([node("n0", gpu()), node("n1", gpu(memory=24))])
    pods = [share("small", 2), share("large", 9), share("middle", 8)]
    decisions = {each.request.name: each for each in place_all(cluster, pods, "cbp")}
    places = {name: each.placement.node for name, each in decisions.items() if each.placement}
    # Large to n1 (24 GiB); then n0 has 16 of 16 and n1 15 of 24: middle to n0; then n1 has more of its own.
    assert places == {"large": "n1", "middle": "n0", "small": "n1"}
    first_fit = place_all(EngineCluster([node("b", gpu()), node("a", gpu())]), pods[:1], "res-ag")
    assert first_fit[0].placement is not None
    assert first_fit[0].placement.node == "a"


def test_a_correlated_accelerator_is_not_taken() -> None:
    cluster = EngineCluster([node("n0", gpu(), gpu(1)), node("n1", gpu())])
    pod = replace(share("a", 1), correlated=(("n0", "gpu-0"), ("n1", "gpu-0"), ("gone", "gpu-0")))
    decision = decide(cluster, pod, "cbp-knots")
    assert decision.placement is not None
    assert (decision.placement.node, decision.placement.shares[0].device) == ("n0", "gpu-1")
    refused = decide(EngineCluster([node("n1", gpu())]), pod, "cbp-knots")
    assert [rejection.reason for rejection in refused.rejections] == [Reason.CORRELATION]
    assert "1 has measured use that correlates with the pod's" in refused.sentence()
