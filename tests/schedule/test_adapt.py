"""Policies that adapt: the scores that pack a cluster best are rehearsed, and only a clear lead counts."""

from random import Random

import pytest

from fairlead.placement import NodeState
from fairlead.request import Demand, Request
from fairlead.schedule import POLICIES, DemandMix, EngineCluster, decide, learn, place, typical_demand
from fairlead.schedule.score.adapt import ENOUGH, adapted, choose, rehearse
from fairlead.schedule.score.mix import EVEN
from fairlead.schedule.score.policies import alternatives
from fairlead.schedule.score.scores import descent, roomy, thrifty, wished
from tests.schedule.clusters import gpu, node

FAIRLEAD = POLICIES["fairlead"]


def _fleet(*shapes: tuple[int, int, int]) -> list[NodeState]:
    """Return nodes: how many, their accelerators, their cores."""
    return [
        node(f"{number}-{at}", *(gpu(device, memory=0) for device in range(devices)), cpu=cores * 1000)
        for number, (count, devices, cores) in enumerate(shapes)
        for at in range(count)
    ]


def _pods(*kinds: tuple[int, int, int]) -> list[Request]:
    """Return pods, the kinds in turn: how many, their accelerators, thousandths of a core."""
    return [
        Request(f"{number}-{at}", cpu=cpu, demand=Demand(count, compute=1000) if count else Demand())
        for number, (pods, count, cpu) in enumerate(kinds)
        for at in range(pods)
    ]


UNEVEN = _fleet((12, 1, 25), (10, 1, 16), (3, 4, 31), (2, 8, 78))
HUNGRY = _pods((32, 1, 4400), (9, 1, 29900), (8, 1, 20400), (6, 1, 10900), (5, 1, 1000), (4, 1, 5100))
"""Pods with much CPU take what several accelerators need; where pods are packed tightly, more of them fit."""


def _allocated(nodes: list[NodeState], pods: list[Request], name: str) -> int:
    cluster = EngineCluster(nodes, mix=typical_demand(pods))
    order = Random(1).sample(pods, len(pods))
    return sum(pod.demand.count for pod in order if place(cluster, pod, name, explain=False).placed)


def test_another_policy_is_taken_where_it_is_clearly_ahead() -> None:
    chosen = adapted(EngineCluster(UNEVEN, mix=typical_demand(HUNGRY)), FAIRLEAD)
    assert chosen.name == "fairlead"
    assert [score for score, _ in chosen.scores] != [score for score, _ in FAIRLEAD.scores]
    assert {wished, thrifty} <= {score for score, _ in chosen.scores}  # preferences and energy stay


def test_the_own_scores_are_kept_without_a_lead() -> None:
    even = typical_demand(_pods((10, 1, 1000)))
    assert choose(UNEVEN, even, alternatives(FAIRLEAD)) is alternatives(FAIRLEAD)[0]


@pytest.mark.parametrize(
    "mix", [EVEN, typical_demand([Request("plain", cpu=1000)])], ids=["unknown", "no accelerators"]
)
def test_nothing_is_rehearsed_without_a_demand_for_accelerators(mix: DemandMix) -> None:
    assert adapted(EngineCluster(UNEVEN, mix=mix), FAIRLEAD).scores == FAIRLEAD.scores


def test_it_is_chosen_once_for_a_mix_and_again_for_another() -> None:
    cluster = EngineCluster(UNEVEN, mix=typical_demand(HUNGRY))
    first = adapted(cluster, FAIRLEAD)
    for at in range(100):  # other answers do not displace it
        decide(cluster, Request(f"plain-{at}", cpu=100 + at))
    assert adapted(cluster, FAIRLEAD) is first
    cluster.mix = typical_demand(_pods((10, 1, 1000)))
    assert descent in [score for score, _ in adapted(cluster, FAIRLEAD).scores]


def test_a_policy_that_does_not_adapt_stays_as_it_is() -> None:
    cluster = EngineCluster(UNEVEN, mix=typical_demand(HUNGRY))
    for name in ("fgd", "bestfit", "spread"):
        assert adapted(cluster, POLICIES[name]) is POLICIES[name]


def test_members_of_a_gang_are_spread_where_spreading_is_chosen() -> None:
    (spread,) = (each for each in alternatives(FAIRLEAD) if roomy in dict(each.scores))
    assert not spread.packs


def test_accelerators_are_not_stranded_where_the_cpu_is_scarce() -> None:
    best = max(_allocated(UNEVEN, HUNGRY, name) for name in ("fgd", "bestfit", "spread"))
    assert _allocated(UNEVEN, HUNGRY, "fairlead") >= best - 1


def test_the_demand_is_learned_from_the_pods_that_run() -> None:
    cluster, pods = EngineCluster(_fleet((60, 1, 25), (40, 4, 31))), _pods((100, 1, 4400), (300, 1, 1000))
    for pod in Random(1).sample(pods, len(pods))[: ENOUGH - 1]:
        place(cluster, pod, FAIRLEAD)
        learn(cluster, FAIRLEAD)
    assert cluster.mix is EVEN
    place(cluster, pods[-1], FAIRLEAD)
    learn(cluster, FAIRLEAD)
    assert {kind.cpu for kind, _ in cluster.mix.kinds} == {1000, 4400}
    learned = cluster.mix
    learn(cluster, FAIRLEAD)
    assert cluster.mix is learned  # until there are many more


def test_a_stated_demand_is_not_replaced() -> None:
    stated = typical_demand(HUNGRY)
    cluster = EngineCluster(_fleet((60, 1, 25), (40, 4, 31)), mix=stated)
    for pod in _pods((2 * ENOUGH, 1, 100)):
        place(cluster, pod, "bestfit")
        learn(cluster, FAIRLEAD)
    assert cluster.mix is stated


def test_it_is_rehearsed_again_once_pods_end() -> None:
    cluster = EngineCluster(UNEVEN, mix=typical_demand(HUNGRY))
    adapted(cluster, FAIRLEAD)
    for at in range(70):
        assert not cluster.turned_over
        place(cluster, Request(f"short-{at}", cpu=100), "bestfit")
        cluster.release(f"default/short-{at}")
        mark = cluster.checkpoint()  # what is only tried does not count
        place(cluster, Request("tried", cpu=100), "bestfit")
        cluster.rollback(mark)
        if at == 64:
            break
    assert cluster.turned_over
    ending = choose(UNEVEN, cluster.mix, alternatives(FAIRLEAD), ends=True)
    assert adapted(cluster, FAIRLEAD) is ending


def test_a_rehearsal_with_ends_takes_the_mean_over_time() -> None:
    pods = [Request(str(at), demand=Demand(1, compute=1000)) for at in range(400)]
    mix, policy = typical_demand(pods), alternatives(FAIRLEAD)[0]
    few = _fleet((10, 1, 25))
    assert rehearse(few, mix, pods, policy) == 100.0
    # Ten pods last at once at any time, on the mean, and there is a place for ten.
    assert 60 < rehearse(few, mix, pods, policy, settled=10) < 95
