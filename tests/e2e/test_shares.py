"""Shares of memory by the device plugin: a pod that fits runs, one that does not is pending with a reason."""

from tests.e2e.install import Site
from tests.e2e.pods import Pods

MEMORY = "fairlead.dev/gpu-mem"


def test_a_share_names_its_device_and_a_pod_that_does_not_fit_is_pending(site: Site, pods: Pods) -> None:
    device = site.replay("jetson-nano").accelerators[0].id
    pods.start(["small"], {MEMORY: 2048})
    pods.wait_running(["small"])
    environ = pods.environ(["small"])["small"]
    assert environ["FAIRLEAD_DEVICE"] == environ["FAIRLEAD_DEVICE_GPU_MEM"] == device
    assert environ["FAIRLEAD_MEMORY_MIB"] == "2048"
    assert environ["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert pods.opens("small", "/dev/nvhost-gpu") == "ok"

    pods.start(["large"], {MEMORY: 2048})
    pods.wait_pending("large", f"Insufficient {MEMORY}")
    pods.stop(["small"])
    pods.wait_running(["large"])
