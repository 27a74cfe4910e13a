"""Whatever the order of bindings, admissions, reports and watch events, no agent has to refuse a pod."""

from collections import deque
from random import Random

import pytest
from msgspec import convert, to_builtins

from fairlead.cache.types import LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.manifest.types.kubernetes import Node
from tests.serve.extender.agents import NodeAllocations
from tests.serve.extender.test_node_evaluator import World, with_condition
from tests.serve.scheduler.objects import node, pod

DEVICE = 4096
SIZES = (256, 512, 768, 1280, 1792, 2304, 3072)
NODES = ("a", "b")
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


class Orders:
    """A cluster whose parts act in a random order: kube-scheduler, the agents, and two watches."""

    def __init__(self, catalog: Catalog, seed: int) -> None:
        self.dice = Random(seed)
        self.world = World(catalog)
        self.agents = {name: NodeAllocations({"gpu-0": DEVICE, "gpu-1": DEVICE}) for name in NODES}
        self.objects: dict[str, LivePod] = {}
        self.sizes: dict[str, int] = {}
        self.reports: dict[str, Node | None] = dict.fromkeys(NODES)
        self.assumed: dict[str, str] = {}
        """By pod: the node that kube-scheduler has chosen; not bound yet."""
        self.admitting: list[str] = []
        self.pod_events: deque[ObjectChange[LivePod]] = deque()
        self.node_events: deque[ObjectChange[Node]] = deque()
        self.clock = 0.0
        self.allocated = 0
        self.refused: list[str] = []
        for name in NODES:
            self._report(name)

    def step(self) -> None:
        """Let one part act."""
        self.clock += 0.01
        parts = (self._schedule, self._bind, self._admit, self._delete, self._deliver_pod, self._deliver_node)
        self.dice.choices(parts, (4, 2, 2, 1, 5, 3))[0]()

    def _schedule(self) -> None:
        waiting = [name for name, each in self.objects.items() if not each.spec.node_name]
        name = self.dice.choice([*waiting, f"p{self.allocated}-{len(self.objects)}-{self.clock:.2f}"])
        if name in self.assumed or (len(self.objects) > 12 and name not in self.objects):
            return
        if name not in self.objects:
            self.sizes[name] = self.dice.choice(SIZES)
            self._write(name, pod(name, mib=self.sizes[name]))
        asked = self.objects[name]
        verdict = self.world.filter(asked, *NODES, now=self.clock)
        if verdict.passed:
            self.assumed[name] = self.dice.choice(list(verdict.passed))
        else:
            self._write(name, with_condition(asked, UNSCHEDULABLE))

    def _bind(self) -> None:
        if self.assumed:
            name = self.dice.choice(list(self.assumed))
            self._write(name, pod(name, 2, on=self.assumed.pop(name), mib=self.sizes[name]))
            self.admitting.append(name)

    def _admit(self) -> None:
        if not self.admitting:
            return
        name = self.admitting.pop(self.dice.randrange(len(self.admitting)))
        bound = self.objects[name]
        agent = self.agents[bound.spec.node_name]
        self.allocated += 1
        if not agent.allocate("/".join(bound.key), self.sizes[name]):
            self.refused.append(f"{name}: {self.sizes[name]} MiB, free {agent.free}")
        self._report(bound.spec.node_name)

    def _delete(self) -> None:
        held = [name for name, each in self.objects.items() if each.spec.node_name]
        if len(held) < 4:
            return
        name = self.dice.choice(held)
        gone = self.objects.pop(name)
        self.pod_events.append(ObjectChange(gone, None))
        if name in self.admitting:
            self.admitting.remove(name)
        self.agents[gone.spec.node_name].release("/".join(gone.key))
        self._report(gone.spec.node_name)

    def _deliver_pod(self) -> None:
        if self.pod_events:
            self.world.evaluator.on_event(self.pod_events.popleft())
            self.world.cache.sync()

    def _deliver_node(self) -> None:
        if self.node_events:
            self.world.evaluator.on_event(self.node_events.popleft())
            self.world.cache.sync()

    def _write(self, name: str, now: LivePod) -> None:
        self.pod_events.append(ObjectChange(self.objects.get(name), now))
        self.objects[name] = now

    def _report(self, name: str) -> None:
        document = to_builtins(node(name, 2))
        document["metadata"]["annotations"] = {"fairlead.dev/allocated": self.agents[name].annotation()}
        before, self.reports[name] = self.reports[name], convert(document, Node)
        self.node_events.append(ObjectChange(before or node(name), self.reports[name]))


@pytest.mark.parametrize("seed", range(8))
def test_no_order_makes_an_agent_refuse_a_pod(catalog: Catalog, seed: int) -> None:
    orders = Orders(catalog, seed)
    for _ in range(2500):
        orders.step()
    assert not orders.refused
    assert orders.allocated > 40
