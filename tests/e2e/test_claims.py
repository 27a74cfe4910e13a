"""Claims (DRA): prepared with CDI, shared by amount or exclusive, and cleaned up afterwards."""

from collections.abc import Iterable

from tests.e2e.api import wait_for
from tests.e2e.install import Site
from tests.e2e.machines import T4_MIB
from tests.e2e.pods import Pods

DEVICE = "pci-0000-3b-00-0"


def test_claims_share_a_device_by_amount_and_a_pod_that_does_not_fit_is_pending(
    site: Site, pods: Pods
) -> None:
    site.replay("server-t4")
    pods.template("four", 4096)
    pods.template("ten", 10240)
    pods.start(["a"], claim="four")
    pods.start(["b"], claim="ten")
    pods.wait_running(["a", "b"])
    environ = pods.environ(["a", "b"])
    assert {name: environment["FAIRLEAD_MEMORY_MIB"] for name, environment in environ.items()} == {
        "a": "4096",
        "b": "10240",
    }
    for environment in environ.values():
        assert environment["FAIRLEAD_DEVICE"] == environment["FAIRLEAD_DEVICE_IT"] == DEVICE
        assert environment["NVIDIA_VISIBLE_DEVICES"].startswith("GPU-")
    assert environ["a"]["FAIRLEAD_SHARE"] != environ["b"]["FAIRLEAD_SHARE"]

    pods.start(["c"], claim="four")
    pods.wait_pending("c", "cannot allocate all claims")
    assert len(claim_files(site)) == 2
    pods.stop(["a"])
    pods.wait_running(["c"])
    pods.stop(["b", "c"])
    wait_for("CDI files of claims to be removed", lambda: not claim_files(site), site.diagnostics)


def test_a_claim_for_a_whole_device_is_exclusive(site: Site, pods: Pods) -> None:
    site.replay("server-t4")
    pods.template("all")
    pods.template("some", 1024)
    pods.start(["alone"], claim="all")
    pods.wait_running(["alone"])
    assert pods.environ(["alone"])["alone"]["FAIRLEAD_MEMORY_MIB"] == str(T4_MIB)
    pods.start(["other"], claim="some")
    pods.wait_pending("other", "cannot allocate all claims")
    wait_for("shares to be withdrawn", lambda: not site.allocatable(), site.differences)
    pods.stop(["alone"])
    pods.wait_running(["other"])


def test_the_device_nodes_of_a_claim_are_in_the_container(site: Site, pods: Pods) -> None:
    site.replay("coral-pcie-4-healthy")
    pods.template("tpu", klass="tpu.fairlead.dev")
    pods.start(["coral"], claim="tpu")
    pods.wait_running(["coral"])
    assert pods.opens("coral", "/dev/apex_0") == "ok"


def claim_files(site: Site) -> list[str]:
    """Return the node's CDI files of claims."""
    names: Iterable[str] = site.lab.run("ls", "/run/cdi").stdout.split()
    return [name for name in names if "-claim-" in name]
