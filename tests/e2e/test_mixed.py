"""One accelerator in three forms at once: whole, by memory and by claim never overlap, and nothing leaks."""

from tests.e2e.api import wait_for
from tests.e2e.install import Site
from tests.e2e.machines import two_small
from tests.e2e.pods import Pods, waits_for
from tests.e2e.truth import faults, truth, watched

EACH = 10
SHARE = 750
REASONS = ("Insufficient", "cannot allocate all claims", "was requested, but")


def test_forms_never_overlap_and_all_is_free_again_afterwards(site: Site, pods: Pods) -> None:
    site.become("server-t4", two_small)
    pods.template("some", SHARE)
    with watched(site):
        for number in range(EACH):
            pods.start([f"share-{number}"], {"fairlead.dev/gpu-mem": SHARE})
            pods.start([f"whole-{number}"], {"fairlead.dev/t4": 1})
            pods.start([f"claim-{number}"], claim="some")
        wait_for("nothing more to start", lambda: still(pods), pods.explain)
        found = truth(site)
        assert not faults(found, site.inventory())
        assert set(pods.running()) == {holding.holder.name for holding in found.holdings}
        # Who holds something goes, and others come.
        pods.stop(pods.running())
        wait_for("others to run", pods.running, pods.explain)
    pods.stop(pods.all())
    site.settled()


def still(pods: Pods) -> bool:
    """Say whether every pod runs, waits for room, or was refused by the node with a reason."""
    for name, pod in pods.all().items():
        said = f"{waits_for(pod)} {pods.events(name)}"
        told = any(word in said for word in REASONS)
        if pod["status"].get("phase") == "Pending" and not told:
            return False
    return bool(pods.running())
