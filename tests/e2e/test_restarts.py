"""In the middle of a burst: the kubelet, the agent and the warden die, and nothing is handed out twice."""

import os
import signal
from collections.abc import Callable

from tests.e2e.api import CORE, wait_for
from tests.e2e.install import NAMESPACE, Site
from tests.e2e.machines import TINY_MIB, TWO_T4, two_tiny
from tests.e2e.pods import Pods
from tests.e2e.test_privileges import find
from tests.e2e.truth import faults, truth, watched

NAMES = [f"pod-{number}" for number in range(24)]
SHARE = 100
Harm = Callable[[Site], None]


def kill_kubelet(site: Site) -> None:
    """Let the kubelet crash; it is started again."""
    site.lab.restart("kubelet", kill=True)


def delete_agent(site: Site) -> None:
    """Take the agent's pod away without notice."""
    name = site.agents()[0]["metadata"]["name"]
    site.api.delete([f"{CORE}/namespaces/{NAMESPACE}/pods/{name}"])


def kill_agent(site: Site) -> None:
    """Let the agent's process crash."""
    kill(site, "agent")


def kill_warden(site: Site) -> None:
    """Let the warden's process crash."""
    kill(site, "warden")


def kill(site: Site, container: str) -> None:
    """End the process of a container of the agent's pod, as a fault of its own would."""
    found = wait_for("the agent's processes", lambda: find(site), site.trouble)
    os.kill(int(found[container].name), signal.SIGKILL)


def test_shares_survive_a_kubelet_and_an_agent_that_crash(site: Site, pods: Pods) -> None:
    site.become("server-t4", two_tiny)
    survive(
        site, pods, lambda names: pods.start(names, {"fairlead.dev/gpu-mem": SHARE}), kill_kubelet, kill_agent
    )
    free = len(TWO_T4) * TINY_MIB
    wait_for("capacity", lambda: site.allocatable().get("fairlead.dev/gpu-mem") == free, site.disagreement)
    left = free - SHARE * len(NAMES)
    wait_for("slices", lambda: sum(site.offered().values()) == left, site.disagreement)


def test_claims_survive_an_agent_that_is_replaced_and_a_warden_that_crashes(site: Site, pods: Pods) -> None:
    site.become("server-t4", two_tiny)
    pods.template("share", SHARE)
    harm = (kill_kubelet, delete_agent, kill_warden)
    survive(site, pods, lambda names: pods.start(names, claim="share"), *harm)
    free = len(TWO_T4) * TINY_MIB
    wait_for("slices", lambda: sum(site.offered().values()) == free, site.disagreement)
    left = free - SHARE * len(NAMES)
    wait_for("capacity", lambda: site.allocatable().get("fairlead.dev/gpu-mem") == left, site.disagreement)


def survive(site: Site, pods: Pods, start: Callable[[list[str]], None], *harm: Harm) -> None:
    """Start pods, do harm in the middle, and see that all is well in the end and was so all the time."""
    with watched(site):
        start(NAMES)
        wait_for("some pods to run", lambda: len(pods.running()) >= 4, pods.explain)
        before = truth(site).of(pods.namespace)
        for each in harm:
            each(site)
        wait_for("a ready agent", site.ready_agent, site.trouble)
        pods.wait_running(NAMES)
        after = truth(site)
        assert not faults(after, site.inventory())
        held = after.of(pods.namespace)
        assert {name: held[name] for name in before} == before, "what a container holds does not change"
        environ = pods.environ(NAMES)
        for name in NAMES:
            told = (environ[name]["FAIRLEAD_DEVICE"], int(environ[name]["FAIRLEAD_MEMORY_MIB"]))
            assert told == (held[name].accelerator, held[name].mebibytes), name
