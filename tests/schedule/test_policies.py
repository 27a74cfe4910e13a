"""Policies: the built-in ones, those of other packages, and the demand that they expect."""

from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from fairlead.errors import SettingsError
from fairlead.request import Demand, Expectation, Request
from fairlead.schedule import (
    POLICIES,
    EngineCluster,
    Policy,
    RequestKind,
    decide,
    policy_named,
    policy_names,
    typical_demand,
)
from fairlead.schedule.filter.compiled import CompiledRequest
from fairlead.schedule.score.candidates import candidates
from fairlead.schedule.score.fragments import PUBLISHED, added_fragments
from fairlead.schedule.score.mix import EVEN, MOST_KINDS
from fairlead.schedule.score.scores import SCORES
from fairlead.units import Bytes
from tests.schedule.clusters import gib, gpu, node, servers, share

OWN = '''
from fairlead.schedule import Policy
from fairlead.schedule.score.scores import snug, wished


def tidy(places):
    """Prefer accelerators that a pod already holds."""
    return 100 * (places.idle[:, 0] < 1000) if places.compiled.count else 0.0


POLICY = Policy("tidy", ((wished, 1.0), (tidy, 1.0), (snug, 1e-3)), help="free accelerators last")
'''


def test_every_policy_has_a_help_text() -> None:
    assert set(POLICIES) == {
        "fairlead", "exclusive", "binpack", "spread", "fastest", "frugal", "fgd", "bestfit",
        "fairlead-safe", "res-ag", "cbp", "pp", "cbp+pp", "cbp-knots",
    }  # fmt: skip
    assert all(policy.help and policy.name == name for name, policy in POLICIES.items())
    assert all(score.__doc__ for score in SCORES.values())


@pytest.mark.parametrize(
    ("name", "does"),
    [("fairlead", "slower than"), ("fairlead-safe", "slower than"), ("fastest", "slower than"),
     ("frugal", "more energy"), ("binpack", "like any other"), ("exclusive", "like any other")],
)  # fmt: skip
def test_every_policy_says_what_it_does_with_an_unknown_latency(name: str, does: str) -> None:
    cluster = EngineCluster([node("old", gpu(model="x"))])
    assert does in POLICIES[name].with_unknown
    asked = share("a", 1)
    asked = replace(asked, estimates={"x": Expectation(unknown="not known: no peak")})
    decision = decide(cluster, asked, name)
    assert decision.placed
    [text] = decision.unknown
    assert text.startswith(f"its latency on x is not known: no peak; policy {name} ")
    assert text.endswith(POLICIES[name].with_unknown)


@pytest.mark.parametrize("name", ["fastest", "frugal"])
def test_an_unknown_figure_ranks_behind_every_known_one(name: str) -> None:
    estimates = {"x": Expectation(unknown="not known"), "y": Expectation(seconds=0.001, joules=0.001)}
    slow = estimates | {"z": Expectation(seconds=1e6, joules=1e6)}
    full = node("full", gpu(model="y"), cpu=0)
    cluster = EngineCluster([node("a", gpu(model="x", memory=1)), node("b", gpu(model="z")), full])
    decision = decide(cluster, replace(share("p", 1), cpu=1, estimates=slow), name)
    assert decision.placement is not None
    assert decision.placement.node == "b"
    assert not decision.unknown


def test_a_policy_of_another_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tidy.py").write_text(OWN)
    info = tmp_path / "tidy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tidy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[fairlead.policies]\ntidy = tidy:POLICY\nbroken = tidy:tidy\ngone = tidy:GONE\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"tidy", "fairlead"} <= set(policy_names())
    cluster = EngineCluster(servers(2), ())
    assert decide(cluster, share("a", 4), policy_named("tidy")).placed
    with pytest.raises(SettingsError, match="is not a Policy"):
        policy_named("broken")
    with pytest.raises(SettingsError, match="tidy:GONE cannot be loaded: AttributeError"):
        policy_named("gone")
    assert EntryPoint("tidy", "tidy:POLICY", "fairlead.policies").load() == policy_named("tidy")


def test_a_score_that_is_not_a_number_is_refused() -> None:
    policy = Policy("odd", ((lambda places: np.full(len(places.row), np.nan), 1.0),))
    with pytest.raises(SettingsError, match="policy 'odd': a score is not a number"):
        decide(EngineCluster(servers(2)), share("a", 4), policy)


def test_typical_demand_is_the_most_frequent_kinds() -> None:
    def some(count: int, cpu: int, milli: int) -> list[Request]:
        return [
            Request(f"{cpu}-{at}", cpu=cpu, memory=Bytes(at), demand=Demand(1, compute=milli))
            for at in range(count)
        ]

    mix = typical_demand([*some(60, 1, 500), *some(35, 2, 1000), *some(5, 3, 100)])
    assert [(kind.cpu, round(weight, 4)) for kind, weight in mix.kinds] == [(1, 0.6316), (2, 0.3684)]
    assert mix.kinds[0][0] == RequestKind(1, Bytes(29), Demand(1, compute=500), least=Bytes(0))
    assert typical_demand([]) is EVEN


def test_rare_requests_for_accelerators_stay_in_the_mix() -> None:
    """Without them nothing would be a fragment, and a policy could not tell one node from another."""
    plain = [Request(f"plain-{at}", cpu=800) for at in range(97)]
    rare = [Request(f"gpu-{at}", cpu=8000, demand=Demand(1, compute=1000)) for at in range(3)]
    mix = typical_demand([*plain, *rare])
    assert [(kind.demand.count, weight) for kind, weight in mix.kinds] == [(0, 0.97), (1, 0.03)]


def test_a_mix_of_free_amounts_has_few_kinds() -> None:
    requests = [Request(str(at), cpu=4000 + 7 * at, demand=Demand(1, compute=500)) for at in range(1000)]
    mix = typical_demand(requests, usual=1.0)
    assert len(mix.kinds) <= MOST_KINDS
    mean = sum(kind.cpu * weight for kind, weight in mix.kinds)
    assert mean == pytest.approx(4000 + 7 * 499.5, rel=1e-3)


def test_fragments_are_idle_capacity_that_expected_requests_cannot_use() -> None:
    """By hand: one accelerator; half of the requests ask for all of it, half for a half."""
    mix = typical_demand([Request(str(milli), demand=Demand(1, compute=milli)) for milli in (500, 1000)])
    cluster = EngineCluster([node("n", gpu(memory=0))], mix=mix)
    for milli, expected in ((250, 375.0), (500, 250.0), (600, 400.0), (1000, 0.0)):
        ask = CompiledRequest(cluster, Request("a", demand=Demand(1, compute=milli)))
        places = candidates(ask, cluster.rows())
        assert places is not None
        # 750 idle: useless for requests for all of it, half of the time; 400 idle: useless for every request.
        assert added_fragments(places, PUBLISHED).tolist() == [expected]


def test_the_cpu_that_accelerators_need_is_saved() -> None:
    kinds = [Request("typical", cpu=4000, demand=Demand(1, compute=1000))]
    nodes = [node("gpus", gpu(0), gpu(1), cpu=8000), node("plain", cpu=8000)]
    cluster = EngineCluster(nodes, mix=typical_demand(kinds))
    placement = decide(cluster, Request("a", cpu=1000)).placement
    assert placement is not None
    assert placement.node == "plain"


def test_a_new_demand_mix_changes_the_scores() -> None:
    nodes = [node("one", gpu(0)), node("two", gpu(0), gpu(1))]
    cluster = EngineCluster(nodes)
    pair = typical_demand([Request("pair", demand=Demand(2))])
    small = Request("a", demand=Demand(1, compute=100))
    assert decide(cluster, small).score != 0
    cluster.mix = pair
    fresh = decide(EngineCluster(nodes, mix=pair), small)
    assert decide(cluster, small) == fresh
    assert fresh.placement is not None
    assert fresh.placement.node == "one"  # a request for two at once fits only the other node


def test_small_shares_go_where_large_ones_do_not_fit() -> None:
    cluster = EngineCluster([node("n", gpu(0), gpu(1))])
    for name, size in (("a", 10), ("b", 4)):
        decision = decide(cluster, share(name, size))
        assert decision.placement is not None
        cluster.bind(decision.placement)
    assert cluster.free("n").devices[1].memory == gib(16)
