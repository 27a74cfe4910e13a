"""A rolling update: the stopped leader releases the Lease, and the other replica leads before it expires."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead.cluster.kinds import LEASES
from fairlead.settings.leader import LEASE_NAME as NAME
from fairlead.settings.leader import LeaderElectionConfig
from tests.deploy.chart.charts import Chart, containers, one
from tests.labs import RealCluster
from tests.serve.scheduler.world import World, bound, open_world

PROGRAM = (sys.executable, "-c", "from fairlead.cli.main import run; run()")


@contextmanager
def replica(args: list[str], kubeconfig: Path, log: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run a replica with the chart's own arguments, except for the port."""
    own = [*args, "--listen=127.0.0.1:0", f"--kubeconfig={kubeconfig}"]
    with log.open("w") as out, subprocess.Popen([*PROGRAM, *own], stderr=out, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_new_replica_leads_at_once(real_cluster: RealCluster, chart: Chart, tmp_path: Path) -> None:
    room = real_cluster.namespace
    values = {"scheduler": {"enabled": True, "name": room}}
    deployment = one(chart.render(values, namespace=room), "Deployment", "fairlead-scheduler")
    args = containers(deployment["spec"]["template"]["spec"])["scheduler"]["args"]
    logs = [tmp_path / "old", tmp_path / "new"]

    async def scenario(old: "subprocess.Popen[str]", world: World) -> float:
        await world.pod("before", mib=1024)
        await world.until(bound("before"))
        with replica(args, real_cluster.api.kubeconfig, logs[1]):
            await _until(lambda: "caches are synced" in logs[1].read_text())
            old.send_signal(signal.SIGTERM)
            await asyncio.to_thread(old.wait, 30)  # until then it may still place new pods
            began = time.monotonic()
            await world.pod("after", mib=1024)
            await world.until(bound("after"))
            took = time.monotonic() - began
            lease = await world.client.get(LEASES, NAME, room)
            assert lease.spec.lease_transitions == 2
        return took

    async def run_scenario() -> float:
        with replica(args, real_cluster.api.kubeconfig, logs[0]) as old:
            async with open_world(real_cluster, 1) as world:
                return await scenario(old, world)

    took = asyncio.run(run_scenario())
    print(f"bound {took:.1f} s after the end of the leader")
    assert "released the Lease" in logs[0].read_text()
    assert took < LeaderElectionConfig().deadline, "a graceful failover need not wait for the lease"


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.05)
