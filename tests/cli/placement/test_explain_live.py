"""`fairlead explain` and `schedule --live` on a real API server, with and without a scheduler to ask."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from fairlead.cluster.kinds import EVENTS, LEASES, PODS
from fairlead.manifest.types.live import SCHEDULED, LivePod
from tests.labs import RealCluster
from tests.serve.scheduler.world import World, bound, open_world

OWN_REASON = "2 lack memory (need 2.0 GiB, most 1.0 GiB free)"
"""The part of the sentence about the world's own nodes: other tests create and delete nodes meanwhile."""
RUN = (sys.executable, "-c", "from fairlead.cli.main import run; run()")


class CommandRunner:
    """Runs commands on the cluster of a world."""

    def __init__(self, cluster: RealCluster, world: World) -> None:
        self._cluster = cluster
        self._world = world

    async def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        named = ("--kubeconfig", str(self._cluster.api.kubeconfig))
        return await asyncio.to_thread(
            subprocess.run, [*RUN, *words, *named], capture_output=True, text=True, timeout=300, check=False
        )

    async def explain(self, name: str, *words: str) -> tuple[int, dict[str, Any]]:
        """Return the exit code and the explanation of a pod."""
        there = ("-n", self._world.namespace, "--lease-namespace", self._world.namespace)
        done = await self.run("explain", name, *there, "-o", "json", *words)
        assert done.stdout, done.stderr
        (explanation,) = json.loads(done.stdout)
        return done.returncode, explanation


@asynccontextmanager
async def serving(
    cluster: RealCluster, world: World, *words: str, listen: str = "127.0.0.1:0", **env: str
) -> AsyncIterator[None]:
    """Run a scheduler of this world as a process."""
    there = ("--name", world.namespace, "--lease-namespace", world.namespace, "--listen", listen)
    process = await asyncio.create_subprocess_exec(
        *(*RUN, "serve", "scheduler", *there, *words, "--kubeconfig", str(cluster.api.kubeconfig)),
        env={**os.environ, **env},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


def run_scenario(
    cluster: RealCluster, script: Callable[[World, CommandRunner], Awaitable[None]], *, serve: bool = True
) -> None:
    async def scenario() -> None:
        async with open_world(cluster, 1) as world:
            if not serve:
                await script(world, CommandRunner(cluster, world))
                return
            async with serving(cluster, world):
                await script(world, CommandRunner(cluster, world))

    asyncio.run(scenario())


async def get_page(world: World, path: str) -> tuple[int, str]:
    """Get a page of the leader without credentials, as any client of its port can."""
    lease = await world.client.get(LEASES, "fairlead-scheduler", world.namespace)
    url = f"http://{lease.metadata.annotations['fairlead.dev/address']}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def until_shown(world: World, line: str) -> None:
    """Wait until the leader's metrics have a line: gauges follow with the next refresh."""
    async with asyncio.timeout(300):
        while line not in (await get_page(world, "/metrics"))[1]:
            await asyncio.sleep(0.05)


async def until_reported(world: World, name: str) -> str:
    """Wait until an event says what the condition of a pod says, and return it; the event is written last."""
    async with asyncio.timeout(300):
        while True:
            (pod,) = [pod for pod in await world.pods() if pod.metadata.name == name]
            events = (await world.client.list(EVENTS, world.namespace)).items
            if pod.condition(SCHEDULED).message in {event.message for event in events}:
                return pod.condition(SCHEDULED).message
            await asyncio.sleep(0.05)


def has_reason(name: str) -> Callable[[tuple[LivePod, ...]], bool]:
    """Return a predicate: the pod's condition has the reason why it waits."""
    return lambda pods: any(
        pod.metadata.name == name and pod.condition(SCHEDULED).message.startswith("0 of ") for pod in pods
    )


def test_condition_event_and_explanation_agree(real_cluster: RealCluster) -> None:
    async def script(world: World, ask: CommandRunner) -> None:
        for number in range(2):
            await world.pod(f"large-{number}", mib=3072)
        await world.until(lambda pods: len(pods) == 2 and bound()(pods))
        await world.pod("late", mib=2048)
        await world.until(has_reason("late"))
        condition = await until_reported(world, "late")
        code, found = await ask.explain("late")
        assert (code, found["source"], found["state"]) == (1, "scheduler", "unschedulable")
        assert OWN_REASON in condition
        assert OWN_REASON in found["sentence"]
        assert found["changes"][0]["text"].startswith("ask for 1.0 GiB")
        assert "PodDeleted" in found["queueing_hints"]

        (late,) = [pod for pod in await world.pods() if pod.metadata.name == "late"]
        page = f"/explain/{world.namespace}/late"
        assert (await get_page(world, page))[0] == 401
        assert (await get_page(world, f"{page}/{late.metadata.uid}"))[0] == 200
        for stranger in ("late", "unknown"):
            status, text = await get_page(world, f"/explain/{world.namespace}/{stranger}/{uuid.uuid4()}")
            assert (status, json.loads(text)["state"]) == (200, "unknown")
            assert "accelerators" not in text
        assert (await get_page(world, "/metrics"))[0] == 200

        code, here = await ask.explain("late", "--local", "-v")
        assert (code, here["source"]) == (1, "here")
        assert here["changes"][0] == found["changes"][0]  # the other changes are about nodes of other tests
        assert OWN_REASON in here["sentence"]
        assert len(here["devices"]) >= 2

        code, placed = await ask.explain("large-0")
        assert (code, placed["state"], placed["node"]) == (0, "bound", world.nodes[0])
        assert [share["memory_bytes"] for share in placed["shares"]] == [3 << 30]
        assert placed["since"]
        done = await ask.run("explain", f"{world.namespace}/late", "--lease-namespace", world.namespace)
        assert "would fit with one of these changes" in done.stdout
        assert "tried again on: " in done.stdout

    run_scenario(real_cluster, script)


def test_a_prometheus_that_does_not_answer_leaves_requests_and_is_named(real_cluster: RealCluster) -> None:
    async def scenario() -> None:
        async with open_world(real_cluster, 1, devices=1) as world:
            by_use = (
                "--policy",
                "fairlead-safe",
                "--prometheus",
                "http://127.0.0.1:1",
                "--usage-period",
                "1s",
            )
            async with serving(real_cluster, world, *by_use):
                await world.pod("fits", mib=3072)
                await world.until(lambda pods: len(pods) == 1 and bound()(pods))
                await world.pod("late", mib=3072)
                await world.until(has_reason("late"))
                code, explanation = await CommandRunner(real_cluster, world).explain("late")
                assert code == 1
                assert explanation["need"]["source"] == "request"
                assert explanation["telemetry"]["staleness"] == "missing"
                assert "http://127.0.0.1:1" in explanation["note"]
                await until_shown(world, 'fairlead_usage_staleness{state="missing"} 1')
                await until_shown(world, 'fairlead_scheduler_needs{source="request"} 2')

    asyncio.run(scenario())


def test_without_a_scheduler_the_decision_is_made_locally_and_noted(real_cluster: RealCluster) -> None:
    async def script(world: World, ask: CommandRunner) -> None:
        await world.pod("small", mib=1024, schedulerName="fairlead")
        code, found = await ask.explain("small")
        assert (code, found["node"], found["source"]) == (0, world.nodes[0], "here")
        assert "no fairlead scheduler is named 'fairlead' in this cluster" in found["note"]

        await world.pod("held", schedulingGates=[{"name": "example.com/quota"}])
        code, found = await ask.explain("held")
        assert (code, found["state"]) == (1, "gated")
        assert "example.com/quota" in found["sentence"]

        await world.pod("odd", notes={"fairlead.dev/gpu-compute": "many"}, schedulerName="fairlead")
        code, found = await ask.explain("odd")
        assert code == 1
        assert "fairlead.dev/gpu-compute" in found["sentence"]

    run_scenario(real_cluster, script, serve=False)


def test_a_pod_of_another_scheduler_is_explained_by_its_condition(real_cluster: RealCluster) -> None:
    async def script(world: World, ask: CommandRunner) -> None:
        await world.pod("first")
        await world.until(bound("first"))
        await world.pod("other", schedulerName="other-scheduler")
        code, found = await ask.explain("other")
        assert (code, found["state"], found["scheduler"]) == (1, "waiting", "other-scheduler")
        assert "other-scheduler, which has not reported on it" in found["sentence"]
        assert "--local shows what fairlead would decide" in found["note"]

    run_scenario(real_cluster, script)


def test_an_unknown_pod_is_answered_with_similar_names(real_cluster: RealCluster) -> None:
    async def script(world: World, ask: CommandRunner) -> None:
        await world.pod("detector-7f-x2x")
        for word, hint in (("detector", "detector-7f-x2x"), ("detektor-7f-x2x", "detector-7f-x2x")):
            done = await ask.run("explain", word, "-n", world.namespace)
            assert (done.returncode, done.stdout) == (2, "")
            assert f"there is no pod {world.namespace}/{word}" in done.stderr
            assert f"did you mean {hint}" in done.stderr
        done = await ask.run("explain", "detector-7f-x2x", "-n", "default")
        assert f"did you mean {world.namespace}/detector-7f-x2x?" in done.stderr
        done = await ask.run("explain")
        assert (done.returncode, "no pod is named" in done.stderr) == (2, True)

    run_scenario(real_cluster, script, serve=False)


def test_schedule_decides_for_a_live_cluster(real_cluster: RealCluster) -> None:
    async def script(world: World, ask: CommandRunner) -> None:
        await world.pod("waits", mib=1024)
        done = await ask.run("schedule", "--live", "-o", "json")
        assert done.returncode in (0, 1), done.stderr  # other tests have pods on the same server
        found = [
            each for each in json.loads(done.stdout)["decisions"] if each["namespace"] == world.namespace
        ]
        assert [each["node"] for each in found] == [world.nodes[0]]
        assert (await world.client.get(PODS, "waits", world.namespace)).spec.node_name == ""
        done = await ask.run("schedule", "--live", "--cluster", "x.yaml")
        assert (done.returncode, "two clusters" in done.stderr) == (2, True)

    run_scenario(real_cluster, script, serve=False)


def routable_address() -> str:
    """Return an address of this machine that an API server proxies to: it refuses loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        try:
            line.connect(("192.0.2.1", 9))  # nothing is sent: this only looks up a route
        except OSError:
            pytest.skip("this machine has no network")
        return str(line.getsockname()[0])


def test_a_leader_that_is_a_pod_is_asked_through_the_api_server(real_cluster: RealCluster) -> None:
    async def script(world: World, ask: CommandRunner) -> None:
        namespace = world.namespace
        await world.pod("leader", schedulerName="none")
        status = {
            "status": {
                "podIP": routable_address(),
                "podIPs": [{"ip": routable_address()}],
                "phase": "Running",
            }
        }
        await world.client.patch_status(PODS, "leader", status, namespace)
        known = {"POD_NAME": "leader", "POD_NAMESPACE": namespace, "POD_IP": "203.0.113.9"}
        async with serving(real_cluster, world, listen="0.0.0.0:0", **known):
            await world.pod("late", mib=9999)
            await world.until(has_reason("late"))
            code, found = await ask.explain("late")
        assert (code, found["source"], found["note"]) == (1, "scheduler", "")

    run_scenario(real_cluster, script, serve=False)
