"""A pod as a request: totals, priorities, rules, and groups."""

from typing import Any

import pytest

from fairlead.errors import ManifestError
from fairlead.request import (
    NOTHING,
    Gang,
    HostPort,
    LabelTerm,
    MatchOperator,
    PodAffinityTerm,
    Selector,
    TaintEffect,
    Toleration,
    TopologySpread,
)
from tests.manifest.worlds import pod, read_pod


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("500m")]}, 1500),
        ({"containers": [container("1")], "initContainers": [container("3")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("3", restartPolicy="Always")]}, 4000),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("2"), container("500m")],
            },
            3000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("2"), container("1", restartPolicy="Always")],
            },
            2000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}}, 3000),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": 2}}}]}, 2000),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": 2}, "requests": {"cpu": 1}}}]}, 1000),
    ],
)
def test_the_effective_request(spec: dict[str, Any], cpu: int) -> None:
    assert read_pod(pod(**spec)).cpu == cpu


def test_other_resources_are_requested_of_the_node() -> None:
    request = read_pod(
        pod(
            {"example.com/camera": 2, "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi", "nvidia.com/gpu": 1}
        )
    )
    sizes = (("ephemeral-storage", 1 << 30), ("example.com/camera", 2), ("hugepages-2Mi", 4 << 20))
    assert request.resources == sizes


def test_selectors_affinity_spread_and_ports() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    spec: dict[str, Any] = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [
            {"key": "a", "operator": "Exists"},
            {"key": "b", "value": "c", "effect": "NoSchedule"},
        ],
        "affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": term}]
            },
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 2,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
        "containers": [
            {"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]}
        ],
    }
    found = read_pod(pod(**spec))
    assert found.selector == Selector.of({"disk": "ssd"})
    assert found.tolerations == (
        Toleration("a", exists=True),
        Toleration("b", "c", effect=TaintEffect.NO_SCHEDULE),
    )
    assert (
        found.pod_affinity[0].topology,
        found.pod_affinity[0].weight,
        found.pod_anti_affinity[0].weight,
    ) == ("zone", 0, 5)
    assert found.topology_spread == (
        TopologySpread(Selector((LabelTerm("app", MatchOperator.IN, ("web",)),)), "zone", 2, must=False),
    )
    assert found.ports == (HostPort(8080),)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"tolerations": [{"key": "a", "operator": "Like"}]}, "spec.tolerations[0].operator: 'Like'"),
        ({"tolerations": [{"value": "a"}]}, "spec.tolerations[0].key: missing"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a"}]},
            "topologySpreadConstraints[0].maxSkew: 0",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "a", "nodeTaintsPolicy": "Maybe"}]},
            "topologySpreadConstraints[0].nodeTaintsPolicy: 'Maybe'",
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "a", "whenUnsatisfiable": "Never"}]},
            "topologySpreadConstraints[0].whenUnsatisfiable: 'Never'",
        ),
        ({"priorityClassName": "urgnt"}, "spec.priorityClassName: no PriorityClass 'urgnt'"),
        (
            {"schedulingGroup": {"podGroupName": "g"}},
            "spec.schedulingGroup.podGroupName: no PodGroup default/g",
        ),
        ({"workloadRef": {"name": "w", "podGroup": "g"}}, "spec.workloadRef.name: no Workload default/w"),
        (
            {"resourceClaims": [{"name": "g", "resourceClaimName": "c"}]},
            "spec.resourceClaims[0]: no ResourceClaim default/c",
        ),
        ({"containers": [{"name": "c", "ports": [{"hostPort": 70000}]}]}, "ports[0].hostPort: 70000"),
        ({"containers": "none"}, "spec.containers: expected `array`, got `str`"),
        ({"nodeSelector": {"a": 1}}, "spec.nodeSelector[...]: expected `str`, got `int`"),
    ],
)
def test_an_invalid_field_is_named(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_pod(pod(**spec))
    assert message in str(caught.value)


def test_a_missing_selector_selects_nothing_and_an_empty_one_everything() -> None:
    def near(**term: Any) -> PodAffinityTerm:
        terms = [{"topologyKey": "zone", **term}]
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        return read_pod(pod(affinity=affinity)).pod_affinity[0]

    assert near().selector == NOTHING
    assert near(labelSelector={}).selector == Selector()
    assert near(labelSelector={}, namespaceSelector={}).namespaces == ("*",)
    named = {"matchLabels": {"kubernetes.io/metadata.name": "db"}}
    assert near(labelSelector={}, namespaceSelector=named, namespaces=["web"]).namespaces == ("db", "web")
    assert near(labelSelector={}, namespaceSelector={"matchLabels": {"team": "a"}}).namespaces == ("*",)
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    assert read_pod(pod(topologySpreadConstraints=[rule])).topology_spread[0].selector == NOTHING


def test_match_label_keys_take_their_values_from_the_pod() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["app", "none"],
        "mismatchLabelKeys": ["app"],
    }
    own = pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    own["metadata"]["labels"] = {"app": "web"}
    selector = read_pod(own).pod_anti_affinity[0].selector
    assert str(selector) == "app=web, app=web, app NotIn web"


def test_node_inclusion_policies_of_topology_spread() -> None:
    rule = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {}}
    found = read_pod(
        pod(
            topologySpreadConstraints=[
                rule,
                {**rule, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
            ]
        )
    ).topology_spread
    assert [(each.allowed, each.tolerated) for each in found] == [(True, False), (False, True)]


def test_host_ports_of_sidecars_count() -> None:
    beside = {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 9000}]}
    before = {"name": "i", "ports": [{"hostPort": 9001}]}
    assert read_pod(pod(initContainers=[beside, before])).ports == (HostPort(9000),)


def test_priorities() -> None:
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 7,
        "preemptionPolicy": "Never",
    }
    usual = {
        **urgent,
        "metadata": {"name": "usual"},
        "value": 3,
        "globalDefault": True,
        "preemptionPolicy": None,
    }
    named = read_pod(pod(priorityClassName="urgent"), urgent, usual)
    assert (named.priority, named.preempts) == (7, False)
    assert (read_pod(pod(), urgent, usual).priority, read_pod(pod(), urgent).priority) == (3, 0)
    assert read_pod(pod(priority=9, priorityClassName="urgent"), urgent).priority == 9
    assert read_pod(pod(priorityClassName="system-node-critical")).priority == 2_000_001_000


@pytest.mark.parametrize(
    ("spec", "gang"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 4}}}, Gang("default/g", 4)),
        ({"schedulingPolicy": {"basic": {}}}, None),
        ({"minMember": 3}, Gang("default/g", 3)),
    ],
)
def test_groups(spec: dict[str, Any], gang: Gang | None) -> None:
    group = {"apiVersion": "x/v1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    assert read_pod(pod(schedulingGroup={"podGroupName": "g"}), group).gang == gang
    assert read_pod(pod(annotations={"scheduling.k8s.io/group-name": "g"}), group).gang == gang
