"""In the middle of a burst: the kubelet, the agent and the warden die, and nothing is handed out twice."""

import os
import signal

import pytest

from tests.e2e.api import CORE, wait_for
from tests.e2e.install import NAMESPACE, Site
from tests.e2e.machines import SMALL_MIB, TWO_T4, two_small
from tests.e2e.pods import Pods
from tests.e2e.test_privileges import find
from tests.e2e.truth import faults, truth, watched

SHARES = [f"share-{number}" for number in range(12)]
CLAIMS = [f"claim-{number}" for number in range(12)]
SHARE = 1024


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


@pytest.mark.parametrize("harm", [(kill_kubelet, kill_agent), (delete_agent, kill_warden)], ids=str)
def test_allocations_survive_and_nothing_is_handed_out_twice(site: Site, pods: Pods, harm: tuple) -> None:
    site.become("server-t4", two_small)
    pods.template("share", SHARE)
    with watched(site):
        pods.start(SHARES, {"fairlead.dev/gpu-mem": SHARE})
        pods.start(CLAIMS, claim="share")
        wait_for("some pods to run", lambda: len(pods.running()) >= 4, pods.explain)
        before = truth(site).of(pods.namespace)
        for each in harm:
            each(site)
        wait_for("a ready agent", site.ready_agent, site.trouble)
        pods.wait_running([*SHARES, *CLAIMS])
        after = truth(site)
        assert not faults(after, site.inventory())
        held = after.of(pods.namespace)
        kept = {name: held[name] for name in before}
        assert kept == before, "what a container holds does not change"
        environ = pods.environ([*SHARES, *CLAIMS])
        for name in (*SHARES, *CLAIMS):
            told = (environ[name]["FAIRLEAD_DEVICE"], int(environ[name]["FAIRLEAD_MEMORY_MIB"]))
            assert told == (held[name].accelerator, held[name].mebibytes), name
        assert {row.accelerator for row in after.holdings} <= set(TWO_T4)
        free = len(TWO_T4) * SMALL_MIB - SHARE * len(CLAIMS)
        wait_for("all that is free, and no more", lambda: offers_left(site) == (free, free), site.disagreement)


def offers_left(site: Site) -> tuple[int, int]:
    """Return the memory that the kubelet offers for shares, and the slices' for claims, corrected for each."""
    shares = SHARE * len(SHARES)
    claims = sum(site.offered().values()) + shares - SHARE * len(CLAIMS)
    return site.allocatable().get("fairlead.dev/gpu-mem", 0), claims
