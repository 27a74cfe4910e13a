"""Inter-pod rules: affinity, anti-affinity, topology spread and host ports."""

from dataclasses import replace

import pytest

from fairlead.placement import Reason
from fairlead.request import HostPort, PodAffinityTerm, Request, Selector, Taint, TopologySpread
from fairlead.schedule import EngineCluster, decide, place
from tests.schedule.clusters import node

ZONES = [node(f"n{at}", labels={"zone": "ab"[at % 2]}) for at in range(4)]
WEB, DB = Selector.of({"app": "web"}), Selector.of({"app": "db"})


def pod(name: str, app: str, **rules: object) -> Request:
    return replace(Request(name, labels={"app": app}), **rules)  # type: ignore[arg-type]


def world(*pods: tuple[Request, str]) -> EngineCluster:
    """Return the zones with pods on the given nodes."""
    cluster = EngineCluster(ZONES)
    for request, name in pods:
        only = replace(request, selector=Selector.of({"kubernetes.io/hostname": name}))
        assert place(cluster, only).placed
    return cluster


def at(cluster: EngineCluster, request: Request) -> str | None:
    placement = decide(cluster, request).placement
    return placement.node if placement else None


def test_pod_affinity_applies_to_the_topology_domain() -> None:
    cluster = world((pod("db", "db"), "n1"))
    web = pod("web", "web", pod_affinity=(PodAffinityTerm(DB, "zone"),))
    assert at(cluster, web) in {"n1", "n3"}
    assert at(cluster, replace(web, pod_affinity=(PodAffinityTerm(DB),))) == "n1"
    assert at(cluster, replace(web, namespace="other")) is None
    assert (
        at(
            cluster,
            replace(web, pod_affinity=(PodAffinityTerm(DB, namespaces=("default",)),), namespace="other"),
        )
        == "n1"
    )
    assert (
        at(cluster, replace(web, pod_affinity=(PodAffinityTerm(DB, namespaces=("*",)),), namespace="other"))
        == "n1"
    )
    assert at(cluster, replace(web, pod_affinity=(PodAffinityTerm(DB, "rack"),))) is None


def test_the_first_pod_of_a_group_may_satisfy_its_own_affinity() -> None:
    own = pod("web", "web", pod_affinity=(PodAffinityTerm(WEB, "zone"),))
    assert at(world(), own) is not None
    assert at(world(), replace(own, labels={})) is None
    assert at(world((pod("old", "web"), "n2")), own) in {"n0", "n2"}


def test_one_pod_must_satisfy_every_affinity_term() -> None:
    both = Selector.of({"app": "db"}), Selector.of({"tier": "fast"})
    web = pod("web", "web", pod_affinity=tuple(PodAffinityTerm(selector, "zone") for selector in both))
    two_pods = world((pod("db", "db"), "n0"), (replace(pod("x", "x"), labels={"tier": "fast"}), "n0"))
    assert at(two_pods, web) is None
    one = replace(pod("db", "db"), labels={"app": "db", "tier": "fast"})
    assert at(world((one, "n1")), web) in {"n1", "n3"}


def test_anti_affinity_applies_both_ways() -> None:
    separate = pod("db", "db", pod_anti_affinity=(PodAffinityTerm(WEB, "zone"),))
    assert at(world((pod("web", "web"), "n0")), separate) in {"n1", "n3"}
    assert at(world((separate, "n0")), pod("web", "web")) in {"n1", "n3"}
    assert at(world((separate, "n0")), pod("other", "x")) is not None
    full = world((pod("w0", "web"), "n0"), (pod("w1", "web"), "n1"))
    assert [(rejection.reason, rejection.count) for rejection in decide(full, separate).rejections] == [
        (Reason.POD_ANTI_AFFINITY, 4)
    ]


def test_a_released_pod_has_no_anti_affinity() -> None:
    separate = pod("db", "db", pod_anti_affinity=(PodAffinityTerm(WEB),))
    cluster = world((separate, "n0"))
    cluster.release("default/db")
    assert cluster.pod_counts.existing_terms == {}


@pytest.mark.parametrize(("weight", "expected"), [(10, {"n0"}), (1, {"n0"})])
def test_preferred_affinity_is_honoured_where_possible(weight: int, expected: set[str]) -> None:
    cluster = world((pod("db", "db"), "n0"))
    assert at(cluster, pod("web", "web", pod_affinity=(PodAffinityTerm(DB, weight=weight),))) in expected
    assert (
        at(cluster, pod("web", "web", pod_anti_affinity=(PodAffinityTerm(DB, weight=weight),)))
        not in expected
    )


def test_preferred_terms_of_existing_pods_count() -> None:
    separate = pod("db", "db", pod_anti_affinity=(PodAffinityTerm(WEB, weight=50),))
    assert at(world((separate, "n0")), pod("web", "web")) != "n0"


def test_topology_spread_keeps_the_skew() -> None:
    even = pod("w9", "web", topology_spread=(TopologySpread(WEB, "zone"),))
    assert at(world((pod("w0", "web"), "n0")), even) in {"n1", "n3"}
    wide = replace(even, topology_spread=(TopologySpread(WEB, "zone", skew=2),))
    assert at(world((pod("w0", "web"), "n0")), wide) is not None
    both = world((pod("w0", "web"), "n0"), (pod("w1", "web"), "n1"))
    assert at(both, even) is not None
    assert at(both, replace(even, topology_spread=(TopologySpread(WEB, "zone", domains=3),))) is None
    assert at(world(), replace(even, topology_spread=(TopologySpread(WEB, "rack"),))) is None


def test_topology_spread_ignores_nodes_without_the_labels_of_every_rule() -> None:
    nodes = [node("n0", labels={"zone": "a", "rack": "1"}), node("n1", labels={"zone": "b"})]
    cluster = EngineCluster(nodes)
    only = replace(pod("w0", "web"), selector=Selector.of({"zone": "a"}))
    assert place(cluster, only).placed
    even = pod(
        "w1", "web", topology_spread=(TopologySpread(WEB, "zone"), TopologySpread(WEB, "rack", skew=9))
    )
    assert at(cluster, even) == "n0"  # zone b has no node with a rack: it is not a domain
    assert at(cluster, replace(even, topology_spread=(TopologySpread(WEB, "zone"),))) == "n1"


def test_node_policies_decide_which_nodes_topology_spread_counts() -> None:
    nodes = [node("n0", labels={"zone": "a"}), node("n1", labels={"zone": "b"}, taints=(Taint("keep"),))]
    cluster = EngineCluster(nodes)
    assert place(cluster, pod("w0", "web")).placed
    assert at(cluster, pod("w1", "web", topology_spread=(TopologySpread(WEB, "zone"),))) is None
    assert (
        at(cluster, pod("w1", "web", topology_spread=(TopologySpread(WEB, "zone", tolerated=True),))) == "n0"
    )
    a = pod("w1", "web", selector=Selector.of({"zone": "a"}), topology_spread=(TopologySpread(WEB, "zone"),))
    assert at(cluster, a) == "n0"
    assert at(cluster, replace(a, topology_spread=(TopologySpread(WEB, "zone", allowed=False),))) is None


def test_preferred_topology_spread_does_not_filter() -> None:
    preferred = pod("w9", "web", topology_spread=(TopologySpread(WEB, "zone", must=False),))
    assert at(world((pod("w0", "web"), "n0")), preferred) in {"n1", "n3"}


def test_topology_spread_ignores_nodes_that_the_selector_excludes() -> None:
    even = pod(
        "w9", "web", topology_spread=(TopologySpread(WEB, "zone"),), selector=Selector.of({"zone": "a"})
    )
    assert at(world((pod("w0", "web"), "n0"), (pod("w1", "web"), "n2")), even) in {"n0", "n2"}


def test_a_host_port_is_allocated_once() -> None:
    taken = pod("a", "x", ports=(HostPort(80),))
    cluster = world(*((replace(taken, name=f"a{at}"), f"n{at}") for at in range(3)))
    assert at(cluster, taken) == "n3"
    assert place(cluster, taken).placed
    decision = decide(cluster, replace(taken, name="late"))
    assert decision.sentence() == "0 of 4 nodes can take late: 4 have a host port taken (80/TCP)"
    assert at(cluster, pod("b", "x", ports=(HostPort(80, "UDP"),))) is not None
