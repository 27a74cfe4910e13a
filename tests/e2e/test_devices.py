"""Whole devices: a container gets the device nodes of its own device, and of no other."""

from collections.abc import Sequence

import pytest

from tests.e2e.api import wait_for
from tests.e2e.install import Site
from tests.e2e.machines import memory_errors, renumber_stick, two_small
from tests.e2e.pods import Pods

STICK, BUS, OLD, NEW = "2-1", 2, 2, 6


@pytest.mark.parametrize(
    ("host", "resource", "nodes"),
    [
        ("coral-pcie-4-healthy", "coral-pcie", ["/dev/apex_0"]),
        ("hailo-10h", "hailo-10h", ["/dev/h1x-0"]),
        ("arc-b580", "arc-b580", ["/dev/dri/card0", "/dev/dri/renderD128"]),
    ],
)
def test_a_container_can_open_its_device(
    site: Site, pods: Pods, host: str, resource: str, nodes: Sequence[str]
) -> None:
    site.replay(host)
    pods.start(["it", "other"], {f"fairlead.dev/{resource}": 1})
    name = wait_for("one of two to run", lambda: next(iter(pods.running()), ""), pods.explain)
    wait_for("the other to be pending", lambda: waits(pods, {"it", "other"} - {name}, resource), pods.explain)
    assert {pods.opens(name, node) for node in nodes} == {"ok"}
    # A container cannot open another device by creating its node.
    output = pods.run(name, "mknod /tmp/x c 10 237; : <> /tmp/x")
    assert "Operation not permitted" in output, output


def test_the_environment_names_the_gpu_for_the_nvidia_runtime(site: Site, pods: Pods) -> None:
    site.replay("server-t4")
    pods.start(["it"], {"fairlead.dev/t4": 1})
    pods.wait_running(["it"])
    environment = pods.environ(["it"])["it"]
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-00000000-0000-0000-0000-000000000000"
    assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert "FAIRLEAD_MEMORY_MIB" not in environment


def test_a_gpu_with_memory_errors_gets_no_new_pod_and_keeps_its_running_one(site: Site, pods: Pods) -> None:
    site.replay("server-t4", two_small)
    pods.start(["it"], {"fairlead.dev/t4": 1})
    pods.wait_running(["it"])
    memory_errors(site.machine.folder, 1)
    wait_for(
        "the kubelet to have none allocatable",
        lambda: "fairlead.dev/t4" not in site.allocatable(),
        pods.explain,
    )
    wait_for("the slices to list none", lambda: not site.offered(), pods.explain)
    annotation = site.node()["metadata"]["annotations"]["fairlead.dev/devices"]
    assert annotation.count('"reason":"uncorrected memory errors since the driver was loaded') == 2
    pods.start(["next"], {"fairlead.dev/t4": 1})
    wait_for("the next one to be pending", lambda: waits(pods, {"next"}, "t4"), pods.explain)
    assert pods.running() == ["it"]
    memory_errors(site.machine.folder, 0)
    pods.wait_running(["it", "next"])


def test_a_stick_that_reappears_under_another_number_can_be_opened_in_place(site: Site, pods: Pods) -> None:
    site.replay("coral-usb-two")
    pods.start(["it"], {"fairlead.dev/coral-usb": 2})
    pods.wait_running(["it"])
    old, new = (f"/dev/bus/usb/{BUS:03d}/{number:03d}" for number in (OLD, NEW))
    # Nothing is plugged in here: a driver without a device responds, so no permission check denies the open.
    assert "No such device" in pods.opens("it", old)
    renumber_stick(site.machine.folder, STICK, BUS, OLD, NEW)
    assert "No such device" in pods.opens("it", new), "the container has the number already"
    wait_for(
        "the grant to follow the stick", lambda: grants(site, new) and not grants(site, old), pods.explain
    )
    pods.run("it", "kill -TERM 1")
    wait_for("the container to run again", lambda: restarts(pods, "it") and pods.running(), pods.explain)
    assert "No such device" in pods.opens("it", new)
    assert "Operation not permitted" in pods.run("it", "mknod /tmp/x c 189 1; : <> /tmp/x"), "another bus"


def grants(site: Site, path: str) -> bool:
    """Return whether a container that is created now would get a node: its runtime reads the CDI files."""
    return path in site.lab.run("sh", "-c", "cat /run/cdi/*").stdout


def waits(pods: Pods, names: set[str], resource: str) -> bool:
    """Return whether these pods are pending for a resource."""
    by_name = pods.all()
    conditions = [condition for name in names for condition in by_name[name]["status"].get("conditions", ())]
    return any(
        f"Insufficient fairlead.dev/{resource}" in condition.get("message", "") for condition in conditions
    )


def restarts(pods: Pods, name: str) -> int:
    """Return the number of restarts of a pod's containers."""
    statuses = pods.all()[name]["status"].get("containerStatuses", ())
    return sum(int(status["restartCount"]) for status in statuses)
