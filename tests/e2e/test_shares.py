"""Shares of memory by the device plugin: what fits runs, what does not waits and says why."""

from tests.e2e.install import Site
from tests.e2e.pods import Pods

MEMORY = "fairlead.dev/gpu-mem"


def test_a_share_names_its_device_and_what_does_not_fit_waits(site: Site, pods: Pods) -> None:
    device = site.become("jetson-nano").accelerators[0].id
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
