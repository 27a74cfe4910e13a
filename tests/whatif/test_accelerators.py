"""Accelerators of a cluster: what is requested of them and measured, and the pods of ours that measure."""

from typing import Any

from fairlead.manifest.files.snapshot import Snapshot
from fairlead.placement import DeviceState, NodeState, Placement
from fairlead.request import Request
from fairlead.share import DeviceShare
from fairlead.units import Bytes
from fairlead.usage.page import read_page
from fairlead.use import DeviceKey
from fairlead.whatif.accelerators import MeasuredDevice, accelerator_uses, measured_devices
from fairlead.whatif.program_pages import MetricsPod, program_pod

GIB = 1 << 30
PAGE = b"""\
fairlead_build_info{version="1"} 1
fairlead_accelerator_memory_used_bytes{id="t4-0",model="t4",unified="false"} 3221225472
fairlead_accelerator_busy_ratio{id="t4-0",model="t4"} 0.25
fairlead_accelerator_busy_ratio{id="t4-1",model="t4"} NaN
fairlead_pod_accelerator_memory_used_bytes{id="t4-0",namespace="shop",pod="web"} 1
"""


def _cluster() -> Snapshot:
    devices = tuple(DeviceState(f"t4-{number}", "t4", memory=Bytes(16 * GIB)) for number in range(2))
    pods = (
        Placement(Request("web", namespace="shop"), "gpu", (DeviceShare("t4-0", Bytes(2 * GIB)),)),
        Placement(Request("job", namespace="lab"), "gpu", (DeviceShare("t4-0", Bytes(4 * GIB)),)),
        Placement(Request("all", namespace="lab"), "gpu", (DeviceShare("t4-1", whole=True),)),
    )
    return Snapshot((NodeState("gpu", devices=devices), NodeState("plain")), pods)


def test_requests_add_up_and_measured_values_stand_beside_them() -> None:
    rows = read_page(PAGE, "gpu")
    assert not isinstance(rows, str)
    measured = measured_devices(rows)
    assert measured == {DeviceKey("gpu", "t4-0"): MeasuredDevice(Bytes(3 * GIB), 0.25)}
    first, second = accelerator_uses(_cluster(), measured)
    assert (first.requested, first.holders) == (6 * GIB, ("shop/web", "lab/job"))
    assert (second.requested, second.measured) == (16 * GIB, MeasuredDevice())
    assert first.to_json()["used_bytes"] == 3 * GIB
    assert second.to_json()["busy"] is None


def test_a_namespace_shows_its_own_pods_alone() -> None:
    (only,) = accelerator_uses(_cluster(), {}, "shop")
    assert (only.device.id, only.holders, only.requested) == ("t4-0", ("shop/web",), 6 * GIB)
    assert accelerator_uses(_cluster(), {}, "sho") == []


def _pod(phase: str = "Running", *args: str) -> dict[str, Any]:
    port = {"name": "metrics", "containerPort": 9464}
    return {
        "metadata": {"namespace": "f", "name": "a", "labels": {"app.kubernetes.io/component": "agent"}},
        "spec": {"nodeName": "gpu", "containers": [{"name": "w"}, {"ports": [port], "args": list(args)}]},
        "status": {"phase": phase},
    }


def test_the_page_of_a_pod_is_at_its_metrics_port() -> None:
    assert program_pod(_pod()) == MetricsPod("agent", "f", "a", "gpu", 9464)
    secure = program_pod(_pod("Running", "--tls-cert=/tls/tls.crt"))
    assert secure is not None
    assert secure.program.pod == "f/https:a:9464"
    assert program_pod(_pod("Succeeded")) is None
