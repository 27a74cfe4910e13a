"""Claims (DRA): prepared by CDI, shared by amount, or alone; and nothing is left of them."""

from collections.abc import Iterable

from tests.e2e.api import wait_for
from tests.e2e.install import Site
from tests.e2e.machines import T4_MIB
from tests.e2e.pods import Pods

DEVICE = "pci-0000-3b-00-0"


def test_claims_share_a_device_by_amount_and_who_does_not_fit_waits(site: Site, pods: Pods) -> None:
    site.become("server-t4")
    pods.template("four", 4096)
    pods.template("ten", 10240)
    pods.start(["a"], claim="four")
    pods.start(["b"], claim="ten")
    pods.wait_running(["a", "b"])
    environ = pods.environ(["a", "b"])
    assert {name: told["FAIRLEAD_MEMORY_MIB"] for name, told in environ.items()} == {
        "a": "4096",
        "b": "10240",
    }
    for told in environ.values():
        assert told["FAIRLEAD_DEVICE"] == told["FAIRLEAD_DEVICE_IT"] == DEVICE
        assert told["NVIDIA_VISIBLE_DEVICES"].startswith("GPU-")
    assert environ["a"]["FAIRLEAD_SHARE"] != environ["b"]["FAIRLEAD_SHARE"]

    pods.start(["c"], claim="four")
    pods.wait_pending("c", "cannot allocate all claims")
    assert len(claim_files(site)) == 2
    pods.stop(["a"])
    pods.wait_running(["c"])
    pods.stop(["b", "c"])
    wait_for("CDI files of claims to go", lambda: not claim_files(site), site.trouble)


def test_a_claim_on_all_of_a_device_has_it_alone(site: Site, pods: Pods) -> None:
    site.become("server-t4")
    pods.template("all")
    pods.template("some", 1024)
    pods.start(["alone"], claim="all")
    pods.wait_running(["alone"])
    assert pods.environ(["alone"])["alone"]["FAIRLEAD_MEMORY_MIB"] == str(T4_MIB)
    pods.start(["other"], claim="some")
    pods.wait_pending("other", "cannot allocate all claims")
    wait_for("shares to be withdrawn", lambda: not site.allocatable(), site.disagreement)
    pods.stop(["alone"])
    pods.wait_running(["other"])


def test_the_nodes_of_a_claimed_device_are_in_the_container(site: Site, pods: Pods) -> None:
    site.become("coral-pcie-4-healthy")
    pods.template("tpu", klass="tpu.fairlead.dev")
    pods.start(["coral"], claim="tpu")
    pods.wait_running(["coral"])
    assert pods.opens("coral", "/dev/apex_0") == "ok"


def claim_files(site: Site) -> list[str]:
    """Return the CDI files of claims that the node has."""
    found: Iterable[str] = site.lab.run("ls", "/run/cdi").stdout.split()
    return [name for name in found if "-claim-" in name]
