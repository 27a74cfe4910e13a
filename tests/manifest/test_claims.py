"""The accelerators that claims (DRA) request, and the supported conditions."""

from typing import Any

import pytest

from fairlead.cel import CelDevice, compile_selector
from fairlead.errors import ManifestError
from fairlead.request import Demand
from fairlead.units import Bytes
from tests.manifest.worlds import pod, read_pod

GIB = 1 << 30
GOPS = 'device.attributes["fairlead.dev"].int8Gops > 20000'
MODEL = 'device.attributes["fairlead.dev"].model'


def template(*requests: dict[str, Any], name: str = "gpu") -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def exactly(expression: str = "", **more: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {"name": "r", "exactly": {"deviceClassName": "fairlead.dev", "selectors": selectors, **more}}


def demand_of(*requests: dict[str, Any]) -> Demand:
    named = [{"name": "g", "resourceClaimTemplateName": "gpu"}]
    return read_pod(pod(resourceClaims=named), template(*requests)).demand


@pytest.mark.parametrize(
    ("request_", "demand"),
    [
        (exactly(), Demand(1)),
        (exactly(count=2), Demand(2)),
        (exactly(capacity={"requests": {"memory": "4Gi"}}), Demand(1, Bytes(4 * GIB))),
        (
            exactly(capacity={"requests": {"fairlead.dev/memory": "4Gi", "compute": 300}}),
            Demand(1, Bytes(4 * GIB), 300),
        ),
        (exactly(f'{MODEL} == "t4"'), Demand(1, selectors=(f'{MODEL} == "t4"',))),
        (exactly(GOPS), Demand(1, selectors=(GOPS,))),
        (exactly(deviceClassName="gpu.nvidia.com"), Demand(1, vendors=("NVIDIA",))),
    ],
)
def test_a_claim_is_a_demand(request_: dict[str, Any], demand: Demand) -> None:
    assert demand_of(request_) == demand


def test_a_device_class_adds_its_selectors() -> None:
    kind = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "small"},
        "spec": {"selectors": [{"cel": {"expression": f'{MODEL} in ["t4"]'}}]},
    }
    named = [{"name": "g", "resourceClaimTemplateName": "gpu"}]
    request = read_pod(pod(resourceClaims=named), template(exactly(deviceClassName="small")), kind)
    assert request.demand.selectors == (f'{MODEL} in ["t4"]',)


def test_requests_of_one_shape_are_counted_together() -> None:
    assert demand_of(exactly(), exactly(count=2)) == Demand(3)


def test_alternatives_of_one_size_become_one_demand() -> None:
    options = [exactly(f'{MODEL} == "{name}" // any')["exactly"] for name in ("t4", "a10")]
    (selector,) = demand_of({"name": "r", "firstAvailable": options}).selectors
    devices = [CelDevice("fairlead.dev", {"fairlead.dev": {"model": name}}) for name in ("t4", "a10", "l4")]
    assert [compile_selector(selector).matches(device) for device in devices] == [True, True, False]


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (
            [exactly("devic.driver == 'x'")],
            "selectors[0].cel.expression: 1:1: undeclared reference to 'devic'",
        ),
        ([exactly('device.attributes["x"].uuid == "1"')], "a condition on 'uuid'"),
        ([exactly('"x"')], "1:1: must evaluate to bool"),
        ([exactly(deviceClassName="missing.example")], "deviceClassName: no DeviceClass 'missing.example'"),
        ([exactly(deviceClassName="")], "deviceClassName: missing"),
        ([exactly(allocationMode="All")], "allocationMode: 'All'"),
        ([exactly(count=99)], "count: 99"),
        (
            [exactly(capacity={"requests": {"memory": "-1"}})],
            "capacity.requests[memory]: -1 is negative",
        ),
        ([exactly(capacity={"requests": {"bandwidth": "1"}})], "no capacity 'bandwidth'"),
        ([{"name": "r"}], "neither exactly nor firstAvailable"),
        ([exactly(), exactly(f'{MODEL} == "t4"')], "different sizes or models"),
    ],
)
def test_invalid_claims(requests: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        demand_of(*requests)
    assert message in str(caught.value)


def test_a_request_of_v1beta1_has_its_fields_beside_its_name() -> None:
    assert demand_of({"name": "r", "deviceClassName": "fairlead.dev", "count": 2}).count == 2


def test_a_resource_and_a_claim_are_rejected_together() -> None:
    named = [{"name": "g", "resourceClaimTemplateName": "gpu"}]
    with pytest.raises(ManifestError, match="by resource and by claim"):
        read_pod(pod({"nvidia.com/gpu": 1}, resourceClaims=named), template(exactly()))
