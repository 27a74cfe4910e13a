"""Device selectors of claims in placement: matches, mismatches and errors."""

import subprocess
import sys

from fairlead.cache.events import HINTS_BY_REASON
from fairlead.manifest.files.collect import collect
from fairlead.manifest.node import state as nodes
from fairlead.placement import Decision, NodeState, Reason
from fairlead.request import Demand, Request
from fairlead.schedule import EngineCluster, decide
from tests import catalogs

CATALOG = catalogs.shipped()
MODEL = 'device.attributes["fairlead.dev"].model'


def listed(name: str, driver: str, *models: str, **more: dict[str, object]) -> NodeState:
    """Return a node with the devices of a ResourceSlice."""
    devices = [
        {
            "name": f"{model}-{at}",
            "attributes": {"model": {"string": model}, "uuid": {"string": f"{name}-{at}"}, **more},
            "capacity": {"memory": {"value": "16Gi"}},
        }
        for at, model in enumerate(models)
    ]
    objects = collect(
        [
            ("n", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}),
            (
                "s",
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceSlice",
                    "metadata": {"name": name},
                    "spec": {"driver": driver, "nodeName": name, "pool": {"name": name}, "devices": devices},
                },
            ),
        ]
    )
    slices = [item.body for item in objects.all("ResourceSlice")]
    (node_object,) = (item.body for item in objects.all("Node"))
    return nodes.read_node("n", node_object, slices, CATALOG)


def decided(*states: NodeState, selectors: tuple[str, ...]) -> Decision:
    cluster = EngineCluster(states)
    return decide(cluster, Request("pod", demand=Demand(1, selectors=selectors)), "fairlead")


def where(decision: Decision) -> str:
    return decision.placement.node if decision.placement else decision.sentence()


JETSON = listed("jetson", "fairlead.dev", "jetson-agx-orin", int8Gops={"int": 138000})
TESLA = listed("tesla", "fairlead.dev", "t4", int8Gops={"int": 130})
NVIDIA = listed("nvidia", "gpu.nvidia.com", "a100")


def test_the_page_s_own_example_is_placed() -> None:
    wanted = ('device.attributes["fairlead.dev"].int8Gops > 20000',)
    assert where(decided(TESLA, JETSON, selectors=wanted)) == "jetson"


def test_a_selector_on_another_domain_does_not_match() -> None:
    wanted = ('"gpu.nvidia.com" in device.attributes',)
    assert where(decided(JETSON, NVIDIA, selectors=wanted)) == "nvidia"
    refused = decided(JETSON, TESLA, selectors=wanted)
    assert refused.sentence() == (
        '0 of 2 accelerators can take pod: 2 do not match "gpu.nvidia.com" in device.attributes'
    )
    assert [rejection.reason for rejection in refused.rejections] == [Reason.DEVICE_SELECTOR]


def test_a_selector_error_rules_out_the_whole_node() -> None:
    both = listed("both", "fairlead.dev", "t4", "l4")
    odd = f'{MODEL} == "t4" || device.attributes["x"].y == 1'
    assert where(decided(listed("one", "fairlead.dev", "t4"), selectors=(odd,))) == "one"
    refused = decided(both, selectors=(odd,)).sentence()
    assert "the selector" in refused
    assert "no such key: y" in refused


def test_a_class_that_does_not_match_hides_the_error_of_a_claim() -> None:
    """As in kube-scheduler: the selectors of the class come first, and the first mismatch decides."""
    both = listed("both", "fairlead.dev", "t4", "l4")
    picky = (f'{MODEL} == "t4"', f'{MODEL} == "t4" || device.attributes["x"].y == 1')
    assert where(decided(both, selectors=picky)) == "both"


def test_devices_that_differ_in_their_serial_numbers_alone_are_one_kind() -> None:
    cluster = EngineCluster(listed(f"n{at}", "fairlead.dev", "t4", "t4") for at in range(20))
    assert len(cluster.columns.kinds) == 1


def test_every_reason_has_queueing_hints() -> None:
    assert HINTS_BY_REASON.keys() == set(Reason)


def test_placing_pods_without_claims_loads_no_evaluator() -> None:
    code = (
        "import sys, fairlead.schedule.decision.decide, fairlead.manifest.pod.request, fairlead.whatif;"
        "sys.exit(any(name.startswith(('fairlead.cel', 're2')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
