"""A stock kube-scheduler with the extender: pods go where one accelerator has room; others do not need it."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pytest

from fairlead import keys
from fairlead.cache.types import SCHEDULED, LivePod
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import PODS
from tests.serve.extender.agents import Agents
from tests.serve.extender.stock import NAMESPACE, Pods, Stock, body, placed, started

DEVICE = 16384
SIZES = (1024, 9216, 2048, 5120, 12288, 3072, 7168)
CROWD = 14
"""Pods that are pending at once: about as many as there is room for."""
LACKS = "node(s) whose accelerators lack memory (need 10 GiB, most 6.0 GiB free)"


pytestmark = pytest.mark.xdist_group("stock")


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    with started(tmp_path_factory.mktemp("stock")) as stock:
        yield stock


@pytest.fixture
def pods(stock: Stock) -> Iterator[Pods]:
    with stock.pods() as pods:
        yield pods


def pending_because(name: str, text: str) -> Callable[[Mapping[str, LivePod]], bool]:
    """Return a condition: a pod is pending for this reason."""
    return lambda pods: text in pods[name].condition(SCHEDULED).message


def by_node(pods: Mapping[str, LivePod]) -> dict[str, list[int]]:
    """Return what pods hold, by node."""
    held: dict[str, list[int]] = {}
    for pod in pods.values():
        size = pod.spec.containers[0].resources.limits.get(keys.GPU_MEM)
        if pod.spec.node_name and size:
            held.setdefault(pod.spec.node_name, []).append(int(str(size)))
    return held


def fit(sizes: list[int]) -> bool:
    """Say whether shares fit on two accelerators at all."""
    sums = {0}
    for size in sizes:
        sums |= {each + size for each in sums}
    return any(one <= DEVICE and sum(sizes) - one <= DEVICE for one in sums)


def test_pods_go_where_one_accelerator_has_room_and_others_get_the_reason(pods: Pods) -> None:
    pods.make(**{f"p{number}": 10240 for number in range(9)})  # by the nodes' sums, all of them would fit
    found = pods.until(lambda found: sum(map(_placed, found.values())) == 6)
    assert [len(each) for each in by_node(found).values()] == [2, 2, 2]
    waiting = [name for name, pod in found.items() if not _placed(pod)]
    pods.until(pending_because(waiting[0], LACKS))
    assert any(LACKS in event for event in pods.events(waiting[0]))
    pods.delete(next(name for name, pod in found.items() if _placed(pod)))
    pods.until(lambda found: sum(map(_placed, found.values())) == 6)


def test_a_burst_of_many_sizes_never_exceeds_an_accelerator(pods: Pods) -> None:
    pods.make(**{f"p{number:02}": SIZES[number % len(SIZES)] for number in range(24)})

    def settled(found: dict[str, LivePod]) -> bool:
        assert all(map(fit, by_node(found).values())), by_node(found)
        return all(_placed(pod) or pod.condition(SCHEDULED).message for pod in found.values())

    found = pods.until(settled)
    assert sum(map(_placed, found.values())) >= 14


def test_no_agent_must_refuse_a_pod_that_the_extender_let_pass(stock: Stock, pods: Pods) -> None:
    """Pods start and end, and agents report their accelerators a little later and in no order."""
    enough = 300 if os.environ.get("FAIRLEAD_CHAOS") == "long" else 20
    allocated, refused = asyncio.run(churn(stock, enough, random.Random(7)))
    assert not refused
    assert allocated >= enough


async def churn(stock: Stock, enough: int, dice: random.Random) -> tuple[int, list[str]]:
    """Create pods and delete others until agents have allocated accelerators to enough of them."""
    async with Client.connect(kubeconfig.load(str(stock.lab.kubeconfig))) as client:
        devices = {f"gpu-{number}": ["t4-0", "t4-1"] for number in range(3)}
        agents = Agents(client, devices, DEVICE, dice)
        async with agents.working():
            alive: list[str] = []
            for number in range(10 * enough):  # near the end most are pending until others end
                if agents.allocated >= enough:
                    break
                alive.append(f"churn-{number}")
                await client.create(PODS.raw(), body(alive[-1], dice.choice(SIZES)), NAMESPACE)
                while len(alive) > CROWD:
                    # Mostly one that holds something: others may be deleted before kube-scheduler tries them.
                    held = [name for name in alive if f"{NAMESPACE}/{name}" in agents.holders]
                    gone = dice.choice(held if held and dice.random() < 0.8 else alive)
                    alive.remove(gone)
                    await client.delete(PODS, gone, NAMESPACE, grace=0)
                await asyncio.sleep(dice.choice((0, 0, 0.02, 0.1)))
        return agents.allocated, agents.refused


def test_an_invalid_request_is_reported_on_the_pod_and_disturbs_no_other(pods: Pods) -> None:
    pods.make(huge=20480, fine=1024)
    found = pods.until(
        lambda found: bool(_placed(found["fine"])) and pending_because("huge", "need 20 GiB")(found)
    )
    assert "preemption is not helpful" in found["huge"].condition(SCHEDULED).message.lower()


def test_without_the_extender_other_pods_are_scheduled(stock: Stock, pods: Pods) -> None:
    stock.end_extender()
    try:
        pods.make(gpu=1024, plain=0)
        pods.until(placed("plain"))
        pods.until(pending_because("gpu", "connection refused"))
    finally:
        stock.start_extender()
    pods.until(placed("gpu"))


def test_while_the_extender_hangs_other_pods_are_scheduled(stock: Stock, pods: Pods) -> None:
    with stock.hanging():
        pods.make(gpu=1024, plain=0, other=0)
        assert not _placed(pods.until(placed("plain", "other"))["gpu"])
    pods.until(placed("gpu"))


def test_an_ignorable_extender_that_is_down_leaves_the_decision_to_the_sums(stock: Stock, pods: Pods) -> None:
    with stock.ignoring():
        stock.end_extender()
        try:
            pods.make(gpu=1024)
            pods.until(placed("gpu"))
        finally:
            stock.start_extender()


def test_requests_are_counted_and_a_stop_is_clean(stock: Stock, pods: Pods) -> None:
    pods.make(gpu=1024, more=4096, huge=20480)
    pods.until(pending_because("huge", "need 20 GiB"))
    counted = Counter(line.split()[0] for line in stock.page("/metrics").splitlines())
    assert counted['fairlead_extender_requests_total{verb="filter",code="200"}'] == 1
    refused = 'fairlead_extender_nodes_evaluated_total{result="refused",reason="accelerator-memory"}'
    assert counted[refused] == 1
    assert stock.end_extender(signal.SIGTERM) == 0
    stock.start_extender()


def _placed(pod: LivePod) -> bool:
    return bool(pod.spec.node_name)
