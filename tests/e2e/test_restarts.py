"""In the middle of a burst the kubelet, the agent and the warden crash, and nothing is allocated twice."""

import os
import signal
from collections.abc import Callable

from tests.e2e.allocations import conflicts, read_allocations, watch_conflicts
from tests.e2e.api import CORE, wait_for
from tests.e2e.install import NAMESPACE, Site
from tests.e2e.machines import TINY_MIB, TWO_T4, two_tiny
from tests.e2e.pods import Pods
from tests.e2e.test_privileges import find

NAMES = [f"pod-{number}" for number in range(24)]
SHARE = 100
Failure = Callable[[Site], None]


def kill_kubelet(site: Site) -> None:
    """Kill the kubelet and restart it."""
    site.lab.restart("kubelet", kill=True)


def delete_agent(site: Site) -> None:
    """Delete the agent's pod without a grace period."""
    name = site.agents()[0]["metadata"]["name"]
    site.api.delete([f"{CORE}/namespaces/{NAMESPACE}/pods/{name}"])


def kill_agent(site: Site) -> None:
    """Kill the agent's process."""
    kill(site, "agent")


def kill_warden(site: Site) -> None:
    """Kill the warden's process."""
    kill(site, "warden")


def kill(site: Site, container: str) -> None:
    """Kill the process of a container of the agent's pod."""
    processes = wait_for("the agent's processes", lambda: find(site), site.diagnostics)
    os.kill(int(processes[container].name), signal.SIGKILL)


def test_shares_survive_a_kubelet_and_an_agent_that_crash(site: Site, pods: Pods) -> None:
    site.replay("server-t4", two_tiny)
    assert_survives(
        site, pods, lambda names: pods.start(names, {"fairlead.dev/gpu-mem": SHARE}), kill_kubelet, kill_agent
    )
    free = len(TWO_T4) * TINY_MIB
    wait_for("capacity", lambda: site.allocatable().get("fairlead.dev/gpu-mem") == free, site.differences)
    left = free - SHARE * len(NAMES)
    wait_for("slices", lambda: sum(site.offered().values()) == left, site.differences)


def test_claims_survive_an_agent_that_is_replaced_and_a_warden_that_crashes(site: Site, pods: Pods) -> None:
    site.replay("server-t4", two_tiny)
    pods.template("share", SHARE)
    failures = (kill_kubelet, delete_agent, kill_warden)
    assert_survives(site, pods, lambda names: pods.start(names, claim="share"), *failures)
    free = len(TWO_T4) * TINY_MIB
    wait_for("slices", lambda: sum(site.offered().values()) == free, site.differences)
    left = free - SHARE * len(NAMES)
    wait_for("capacity", lambda: site.allocatable().get("fairlead.dev/gpu-mem") == left, site.differences)


def assert_survives(site: Site, pods: Pods, start: Callable[[list[str]], None], *failures: Failure) -> None:
    """Start pods, inject failures in the middle, and check the allocations at the end and all the time."""
    with watch_conflicts(site):
        start(NAMES)
        wait_for("some pods to run", lambda: len(pods.running()) >= 4, pods.explain)
        before, uids = read_allocations(site).of(pods.namespace), pods.uids()
        for fail in failures:
            fail(site)
        wait_for("a ready agent", site.ready_agent, site.diagnostics)
        wait_for("all pods to run", lambda: run_or_replace(pods, start), pods.explain)
        after = read_allocations(site)
        assert not conflicts(after, site.inventory())
        held = after.of(pods.namespace)
        kept = {name for name, uid in pods.uids().items() if uids[name] == uid}
        unchanged = {name: holding for name, holding in before.items() if name in kept}
        assert unchanged, "a pod that runs is not rejected"
        assert {name: held[name] for name in unchanged} == unchanged, (
            "the holding of a container does not change"
        )
        environ = pods.environ(NAMES)
        for name in NAMES:
            environment = (environ[name]["FAIRLEAD_DEVICE"], int(environ[name]["FAIRLEAD_MEMORY_MIB"]))
            assert environment == (held[name].accelerator, held[name].mebibytes), name


def run_or_replace(pods: Pods, start: Callable[[list[str]], None]) -> bool:
    """Return whether all pods run; replace those that the kubelet rejected, as a ReplicaSet does."""
    rejected = pods.rejected()
    if rejected:
        pods.stop(rejected)
        start(rejected)
    return not rejected and set(NAMES) <= set(pods.running())
