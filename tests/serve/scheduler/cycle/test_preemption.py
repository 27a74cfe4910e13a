"""A preemptor gets the places of its victims, and evicts exactly as many as it needs, whatever else waits."""

from random import Random
from typing import Any

import msgspec
import pytest

from fairlead.cache.types import PODS, LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.manifest.types.policy import BUDGETS
from fairlead.serve.scheduler.bind.writes import BindingPlan
from fairlead.serve.scheduler.cycle.preemption import UNNEEDED
from tests.serve.scheduler.cycle.test_cycle import cycle_of, victims
from tests.serve.scheduler.objects import claim, device_slice, node, pod, read

RING = {"fairlead.dev/gang": "ring", "fairlead.dev/gang-size": "2"}


class PreemptionScenario:
    """A full cluster, pending pods, and an API server that carries out every request at once."""

    def __init__(self, catalog: Catalog, nodes: int, devices: int, gib: int = 4, half: int = 2048) -> None:
        names = [f"n{number}" for number in range(nodes)]
        slices = [device_slice(name, devices=devices, gib=gib) for name in names]
        self.low = [
            pod(f"low-{name}-{number}", on=name, mib=half, notes=placed(number // 2, half))
            for name in names
            for number in range(2 * devices)
        ]
        self.cycle = cycle_of(catalog, *(node(name, cpu="64") for name in names), *slices, *self.low)
        self.there = {each.metadata.uid: each for each in self.low}
        self.evicted: list[str] = []
        self.bound: list[BindingPlan] = []
        self.now = 0.0

    def add_pods(self, *pods: LivePod) -> None:
        """Add pods to the cache."""
        for each in pods:
            self.there[each.metadata.uid] = each
            self.cycle.cache.on_event(ObjectChange(None, each))

    def step(self, *, gone: bool = True) -> None:
        """Run cycles while a pod is active; victims end at once where they are `gone`, else they leave."""
        self.now += 1.0
        self.cycle.refresh(self.now)
        while self.cycle.queue.has_active:
            result = self.cycle.run(self.now)
            for plan in result.plans:
                self.bind(plan)
            for preemption in result.preemptions:
                for victim in preemption.victims:
                    assert self.cycle.preemptions.is_needed(victim.metadata.uid)
                    self.evict(victim, gone=gone)
            self.cycle.refresh(self.now)

    def bind(self, plan: BindingPlan) -> None:
        """Bind a pod."""
        shares = [each.to_json() for each in plan.placement.shares]
        note = {
            **plan.pod.metadata.annotations,
            "fairlead.dev/placement": msgspec.json.encode({"version": 1, "shares": shares}).decode(),
        }
        document = msgspec.to_builtins(plan.pod)
        document["spec"]["nodeName"] = plan.placement.node
        document["metadata"]["annotations"] = note
        self._seen(plan.pod, read(PODS, document))
        self.bound.append(plan)
        self.cycle.record_bound(plan.uid, self.now)

    def evict(self, victim: LivePod, *, gone: bool = True) -> None:
        """Evict a pod."""
        self.evicted.append(victim.metadata.name)
        self.cycle.record_eviction(victim.metadata.uid, "", self.now)
        document = msgspec.to_builtins(victim)
        document["metadata"] |= {
            "deletionTimestamp": "2026-01-01T00:00:30Z",
            "deletionGracePeriodSeconds": 30,
        }
        self._seen(self.there[victim.metadata.uid], read(PODS, document))
        if gone:
            self.end(victim.metadata.uid)

    def end(self, uid: str) -> None:
        """End a pod."""
        self._seen(self.there[uid], None)

    def _seen(self, before: LivePod, now: LivePod | None) -> None:
        uid = before.metadata.uid
        self.cycle.cache.on_event(ObjectChange(self.there[uid], now))
        if now is None:
            del self.there[uid]
        else:
            self.there[uid] = now

    def names(self) -> list[str]:
        """Return the names of the pods that were bound."""
        return [plan.pod.metadata.name for plan in self.bound]


def placed(device: int, mib: int) -> dict[str, str]:
    share = {"device": f"gpu-{device}", "memory_bytes": mib << 20, "compute_milli": 0, "whole": False}
    return {"fairlead.dev/placement": msgspec.json.encode({"version": 1, "shares": [share]}).decode()}


@pytest.mark.parametrize("waiting", [0, 10, 50])
def test_a_pod_that_needs_two_victims_evicts_two_however_many_wait(catalog: Catalog, waiting: int) -> None:
    scenario = PreemptionScenario(catalog, nodes=6, devices=2)
    scenario.add_pods(*(pod(f"wait-{number}", mib=2048) for number in range(waiting)))
    scenario.step()
    scenario.add_pods(pod("vip", mib=4096, priority=1000))
    for _ in range(5):
        scenario.step()
    assert "vip" in scenario.names()
    assert len(scenario.evicted) == 2
    assert scenario.names() == ["vip"], "nothing else was free at any time"


def test_the_place_of_a_victim_is_reserved_until_the_last_one_is_gone(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=1, devices=1)
    scenario.add_pods(pod("wait", mib=2048), pod("vip", mib=4096, priority=9))
    scenario.step(gone=False)
    assert len(scenario.evicted) == 2
    first, second = (f"uid-{name}" for name in scenario.evicted)
    scenario.end(first)
    scenario.step()
    assert scenario.names() == []
    scenario.end(second)
    scenario.step()
    assert scenario.names() == ["vip"]
    assert len(scenario.evicted) == 2


def test_a_gang_evicts_as_many_as_it_needs_and_reserves_their_places(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=4, devices=2)
    scenario.add_pods(*(pod(f"wait-{number}", mib=2048) for number in range(20)))
    scenario.step()
    ring = {**RING, "fairlead.dev/gang-size": "5"}
    scenario.add_pods(*(pod(f"member-{number}", mib=4096, notes=ring, priority=9) for number in range(5)))
    for _ in range(5):
        scenario.step()
    assert sorted(scenario.names()) == [f"member-{number}" for number in range(5)]
    assert len(scenario.evicted) == 10


def test_a_pod_with_several_devices_evicts_where_the_fewest_victims_are(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=2, devices=4)
    for uid in ("uid-low-n1-0", "uid-low-n1-4"):  # of gpu-0 and gpu-2
        scenario.end(uid)
    scenario.add_pods(pod("pair", mib=4096, notes={"fairlead.dev/accelerator-count": "2"}, priority=9))
    for _ in range(4):
        scenario.step()
    assert scenario.names() == ["pair"]
    assert sorted(scenario.evicted) == ["low-n1-1", "low-n1-5"]


def test_a_pod_that_is_leaving_is_awaited_and_no_other_is_evicted(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=2, devices=1)
    scenario.evict(scenario.low[0], gone=False)
    scenario.evicted.clear()
    scenario.add_pods(pod("vip", mib=2048, priority=9))
    scenario.step()
    assert scenario.evicted == []
    assert scenario.names() == []
    scenario.end(scenario.low[0].metadata.uid)
    scenario.step()
    assert scenario.names() == ["vip"]


def test_a_claim_that_outlives_its_pod_is_awaited_too(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=1, devices=1, half=4096)
    for each in scenario.low:
        scenario.end(each.metadata.uid)
    gone = pod("gone", on="n0", mib=4096)
    held = claim("gone-claim", gone, on="n0", mib=2048)
    other = pod("other", on="n0", mib=2048, notes=placed(0, 2048))
    scenario.add_pods(other)
    scenario.cycle.cache.on_event(ObjectChange(None, held))
    scenario.add_pods(pod("vip", mib=2048, priority=9))
    scenario.step()
    assert scenario.evicted == []
    scenario.cycle.cache.on_event(ObjectChange(held, None))
    scenario.step()
    assert scenario.names() == ["vip"]


def test_a_gang_waits_for_claims_that_outlive_all_of_its_victims(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=0, devices=0)
    low = [pod(f"low-{number}", on="n", mib=4096) for number in range(2)]
    held = [claim(f"c-{number}", each, on="n", mib=4096) for number, each in enumerate(low)]
    scenario.add_pods(*low)
    for each in (node("n"), device_slice("n", devices=1, gib=8), *held):
        scenario.cycle.cache.on_event(ObjectChange(None, each))
    scenario.add_pods(*(pod(name, mib=4096, notes=RING, priority=9) for name in "ab"), pod("wait", mib=4096))
    scenario.step()
    assert sorted(scenario.evicted) == ["low-0", "low-1"]
    for each in held:
        scenario.step()
        assert scenario.names() == [], "its claim still holds the device"
        scenario.cycle.cache.on_event(ObjectChange(each, None))
    scenario.step()
    assert sorted(scenario.names()) == ["a", "b"]


def test_the_reservation_of_a_deleted_preemptor_ends(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=1, devices=1)
    scenario.add_pods(pod("wait", mib=2048), pod("vip", mib=4096, priority=9))
    scenario.step(gone=False)
    victim = scenario.evicted[0]
    scenario.end("uid-vip")
    assert not scenario.cycle.preemptions.is_needed(f"uid-{victim}"), "no pod needs this eviction"
    scenario.end(f"uid-{victim}")
    scenario.step()
    assert scenario.names() == ["wait"]


def test_a_preemptor_that_finds_a_place_elsewhere_takes_it(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=1, devices=1)
    scenario.add_pods(pod("vip", mib=4096, priority=9))
    scenario.step(gone=False)
    scenario.cycle.cache.on_event(ObjectChange(None, node("fresh")))
    scenario.cycle.cache.on_event(ObjectChange(None, device_slice("fresh")))
    scenario.step()
    assert [plan.placement.node for plan in scenario.bound] == ["fresh"]
    scenario.add_pods(pod("wait", mib=2048))
    scenario.end(f"uid-{scenario.evicted[0]}")
    scenario.step()
    assert scenario.names() == ["vip", "wait"]


def test_a_reservation_expires_and_stuck_victims_are_left_alone(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=2, devices=1)
    scenario.add_pods(pod("vip", mib=4096, priority=9))
    scenario.step(gone=False)
    stuck = sorted(scenario.evicted)
    scenario.now += 61.0
    scenario.step()
    assert scenario.names() == ["vip"]
    assert len(scenario.evicted) == 4
    assert not set(stuck) & set(scenario.evicted[2:])


def test_a_pod_whose_binding_failed_keeps_the_place_that_others_were_evicted_for(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=1, devices=1)
    scenario.add_pods(pod("wait", mib=2048), pod("vip", mib=4096, priority=9))
    cycle = scenario.cycle
    scenario.step(gone=False)
    for name in list(scenario.evicted):
        scenario.end(f"uid-{name}")
    cycle.refresh(10.0)
    (plan,) = cycle.run(10.0).plans
    assert plan.pod.metadata.name == "vip"
    cycle.record_failure(plan.uid, 10.0)
    cycle.refresh(10.1)
    assert [plan for _ in range(3) for plan in cycle.run(10.1).plans] == [], (
        "it is tried again after a backoff"
    )
    cycle.queue.flush_expired(11.0)
    cycle.refresh(11.0)
    assert [each.pod.metadata.name for each in cycle.run(11.0).plans] == ["vip"]


def test_a_pod_that_is_being_bound_is_no_victim_until_the_api_server_shows_it_bound(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n", devices=1), pod("low", mib=4096))
    (plan,) = cycle.run(0.0).plans
    cycle.cache.on_event(ObjectChange(None, pod("vip", mib=4096, priority=9)))
    cycle.refresh(1.0)
    result = cycle.run(1.0)
    assert (result.plans, result.preemptions) == ((), ())
    cycle.cache.on_event(ObjectChange(plan.pod, pod("low", 2, on="n", mib=4096)))
    cycle.record_bound(plan.uid, 2.0)
    cycle.refresh(2.0)
    result = cycle.run(2.0)
    assert (result.plans, victims(result)) == ((), ["low"])


def test_a_higher_priority_takes_a_reserved_place_before_another_running_pod_is_evicted(
    catalog: Catalog,
) -> None:
    scenario = PreemptionScenario(catalog, nodes=1, devices=1)
    scenario.add_pods(pod("vip", mib=4096, priority=9))
    scenario.step(gone=False)
    scenario.add_pods(pod("king", mib=4096, priority=99))
    scenario.step(gone=False)
    assert len(scenario.evicted) == 2
    for name in list(scenario.evicted):
        scenario.end(f"uid-{name}")
    scenario.step()
    assert scenario.names() == ["king"]


def test_the_next_leader_uses_the_places_that_the_last_one_freed_by_eviction(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=3, devices=1)
    scenario.add_pods(*(pod(f"wait-{number}", mib=2048) for number in range(5)))
    scenario.add_pods(pod("vip", mib=4096, priority=9), pod("equal", mib=4096, priority=9))
    scenario.step(gone=False)
    scenario.end(f"uid-{scenario.evicted[0]}")
    again = PreemptionScenario(catalog, nodes=0, devices=0)
    again.cycle = cycle_of(
        catalog,
        *(node(f"n{number}", cpu="64") for number in range(3)),
        *(device_slice(f"n{number}", devices=1) for number in range(3)),
        *scenario.there.values(),
    )
    again.there = scenario.there
    again.step(gone=False)
    assert again.names() == []
    assert again.evicted == [], "the leaving pods make enough room for both"
    for name in scenario.evicted[1:]:
        again.end(f"uid-{name}")
    again.step()
    assert sorted(again.names()) == ["equal", "vip"]


def budget(name: str, allowed: int, **labels: str) -> Any:
    return read(
        BUDGETS,
        {
            "metadata": {"name": name, "namespace": "default", "generation": 1},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
        },
    )


def labelled(name: str, on: str, **labels: str) -> Any:
    document = msgspec.to_builtins(pod(name, on=on, mib=4096))
    document["metadata"]["labels"] = labels
    return read(PODS, document)


def test_victims_respect_disruption_budgets_and_the_refusal_names_the_budget(catalog: Catalog) -> None:
    web, free = labelled("web", "n", app="web"), labelled("free", "n")
    guard = budget("web-guard", 0, app="web")
    cycle = cycle_of(catalog, node("n"), device_slice("n"), web, free, guard, pod("a", mib=4096, priority=9))
    result = cycle.run(0.0)
    assert (result.plans, victims(result)) == ((), ["free"])
    cycle.cache.on_event(ObjectChange(None, pod("b", mib=4096, priority=9)))
    cycle.refresh(1.0)
    result = cycle.run(1.0)
    assert (result.plans, result.preemptions) == ((), ())
    text = cycle.reporter.text("uid-b")
    assert "forbidden by PodDisruptionBudget web-guard (0 allowed)" in text
    assert cycle.last_decisions["uid-b"].decision.sentence() == text
    cycle.cache.on_event(ObjectChange(guard, budget("web-guard", 1, app="web")))
    cycle.refresh(2.0)
    result = cycle.run(2.0)
    assert (result.plans, victims(result)) == ((), ["web"])


def test_a_victim_that_could_not_be_evicted_is_not_chosen_for_a_while(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=2, devices=1, half=4096)
    scenario.end("uid-low-n0-1")
    scenario.end("uid-low-n1-1")
    scenario.add_pods(pod("vip", mib=4096, priority=9))
    cycle = scenario.cycle
    cycle.refresh(0.0)
    result = cycle.run(0.0)
    assert result.plans == ()
    (first,) = victims(result)
    cycle.record_eviction(f"uid-{first}", "a budget forbids it", 0.0)
    cycle.refresh(0.0)
    result = cycle.run(0.0)
    assert result.plans == ()
    (second,) = victims(result)
    assert first != second


def test_where_one_victim_stays_the_others_stay_too_and_can_be_chosen_again(catalog: Catalog) -> None:
    scenario = PreemptionScenario(catalog, nodes=2, devices=1)
    scenario.add_pods(pod("vip", mib=4096, priority=9))
    cycle = scenario.cycle
    cycle.refresh(0.0)
    result = cycle.run(0.0)
    assert result.plans == ()
    first, second = [f"uid-{name}" for name in victims(result)]
    cycle.record_eviction(first, "a budget forbids it", 0.0)
    assert not cycle.preemptions.is_needed(second)
    cycle.record_eviction(second, UNNEEDED, 0.0)
    cycle.refresh(0.1)
    result = cycle.run(0.1)
    assert result.plans == ()
    others = {f"uid-{name}" for name in victims(result)}
    assert len(others) == 2
    assert first not in others
    for uid in others:
        cycle.record_eviction(uid, "a budget forbids it", 1.0)
    cycle.refresh(6.5)
    result = cycle.run(6.5)
    assert result.plans == ()
    assert len(victims(result)) == 2, "after a while, any will do"


@pytest.mark.parametrize("seed", range(40))
def test_preemption_evicts_exactly_as_many_pods_as_needed(catalog: Catalog, seed: int) -> None:
    dice = Random(seed)
    nodes, devices = dice.randint(2, 8), dice.choice((1, 2, 4))
    scenario = PreemptionScenario(catalog, nodes, devices)
    scenario.add_pods(*(pod(f"wait-{number}", mib=2048) for number in range(dice.randint(0, 50))))
    scenario.step()
    kind = dice.choice(("single", "pair", "gang") if devices > 1 else ("single", "gang"))
    if kind == "gang":
        size = dice.randint(2, nodes * devices)
        ring = {**RING, "fairlead.dev/gang-size": str(size)}
        new = [pod(f"vip-{number}", mib=4096, notes=ring, priority=9) for number in range(size)]
        needed = 2 * size
    elif kind == "pair":
        new = [pod("vip", mib=4096, notes={"fairlead.dev/accelerator-count": "2"}, priority=9)]
        needed = 4
    else:
        mib = dice.choice((1024, 2048, 4096))
        new, needed = [pod("vip", mib=mib, priority=9)], 2 if mib == 4096 else 1
    scenario.add_pods(*new)
    for _ in range(6):
        scenario.step()
    assert set(scenario.names()) >= {each.metadata.name for each in new}
    assert len(scenario.evicted) == needed
