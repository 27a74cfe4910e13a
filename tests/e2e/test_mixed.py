"""One accelerator in three forms at once: whole, by memory and by claim never overlap, and nothing leaks."""

from tests.e2e.allocations import conflicts, read_allocations, watch_conflicts
from tests.e2e.api import wait_for
from tests.e2e.install import Site
from tests.e2e.machines import two_small
from tests.e2e.pods import Pods, pending_reason

PODS_PER_FORM = 10
SHARE = 750
REASONS = ("Insufficient", "cannot allocate all claims", "was requested, but")


def test_forms_never_overlap_and_all_devices_are_free_afterwards(site: Site, pods: Pods) -> None:
    site.replay("server-t4", two_small)
    pods.template("some", SHARE)
    with watch_conflicts(site):
        for number in range(PODS_PER_FORM):
            pods.start([f"share-{number}"], {"fairlead.dev/gpu-mem": SHARE})
            pods.start([f"whole-{number}"], {"fairlead.dev/t4": 1})
            pods.start([f"claim-{number}"], claim="some")
        wait_for("no more pods to start", lambda: is_stable(pods), pods.explain)
        allocations = read_allocations(site)
        assert not conflicts(allocations, site.inventory())
        assert set(pods.running()) == {holding.holder.name for holding in allocations.holdings}
        # The holders are deleted, and pending pods start.
        pods.stop(pods.running())
        wait_for("others to run", pods.running, pods.explain)
    pods.stop(pods.all())
    site.wait_published()


def is_stable(pods: Pods) -> bool:
    """Return whether every pod runs, is unschedulable, or was rejected by the node with a reason."""
    for name, pod in pods.all().items():
        text = f"{pending_reason(pod)} {pods.events(name)}"
        explained = any(reason in text for reason in REASONS)
        if pod["status"].get("phase") == "Pending" and not explained:
            return False
    return bool(pods.running())
