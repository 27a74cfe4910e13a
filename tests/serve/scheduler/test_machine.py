"""Several replicas and an API server, with lost and late requests, in any order: one step at a time."""

import os
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import CLAIMS, DISRUPTION, NODES, PODS
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.keys import PLACEMENT_FORMAT
from fairlead.manifest.types.storage import (
    SELECTED_NODE,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    WAIT_FOR_FIRST_CONSUMER,
)
from fairlead.serve.machine.flow import Effect
from tests import catalogs
from tests.cache.test_cache import content
from tests.serve.scheduler.allocated import allocated_bytes
from tests.serve.scheduler.leader.unfenced import unfenced
from tests.serve.scheduler.model import Api
from tests.serve.scheduler.objects import GIB, device_slice, node, pod, read
from tests.serve.scheduler.simulated import (
    KINDS,
    EffectQueue,
    Fate,
    SentEffect,
    SimulatedReplica,
    unconditional,
)

LONG = os.environ.get("FAIRLEAD_CHAOS") == "long"
REPLICAS = 3 if LONG else 2
DEVICE = 4 * GIB
NODES_THERE = ("bindings", "claims")
CROWD = 5
"""The most pods at once: two devices are soon full."""
replicas = st.integers(0, REPLICAS - 1)
numbers = st.integers(0, 30)
sizes = st.sampled_from([1024, 2048, 3072, 4096])
fates = st.sampled_from(["done", "done", "done", "lost", "late"])


def surroundings() -> list[Any]:
    """Return two nodes with a device each; one hands over by bindings, the other by claims."""
    notes = {"annotations": {PLACEMENT_FORMAT: "1"}}
    document = msgspec.to_builtins(node("bindings"))
    document["metadata"] |= notes
    document["status"]["allocatable"] |= {"fairlead.dev/gpu-mem": "4096"}
    slices = [device_slice(name, devices=1) for name in NODES_THERE]
    late = {"metadata": {"name": "late"}, "provisioner": "x", "volumeBindingMode": WAIT_FOR_FIRST_CONSUMER}
    return [read(NODES, document), node("claims"), *slices, read(STORAGE_CLASSES, late)]


class ReplicaStateMachine(RuleBasedStateMachine):
    """Replicas of one API server."""

    kind = SimulatedReplica

    def __init__(self) -> None:
        super().__init__()
        self.api = Api()
        self.effects = EffectQueue(self.api)
        self.now = 100.0
        self.names = iter(range(10_000))
        self.replicas = [self.replica() for _ in range(REPLICAS)]

    def replica(self) -> SimulatedReplica:
        replica = self.kind(f"replica-{next(self.names)}", self.effects, catalogs.shipped(), lambda: self.now)
        for surrounding in surroundings():
            replica.add_object(surrounding)
        replica.begin()
        return replica

    @initialize()
    def a_replica_leads(self) -> None:
        self.create_pod(3072, named=False)
        for _ in range(3):
            self.run_undisturbed(0, 12)

    @rule(
        mib=sizes,
        named=st.booleans(),
        priority=st.sampled_from([0, 10]),
        preempts=st.booleans(),
        volume=st.booleans(),
    )
    def create_pod(
        self, mib: int, named: bool, priority: int = 0, preempts: bool = False, volume: bool = False
    ) -> None:
        """Create a pod, unless there are many; its `volume` gets a node together with the pod."""
        if len([*self.api.all("pods")]) >= CROWD:
            return
        name = f"pod-{next(self.names)}"
        policy = "PreemptLowerPriority" if preempts else "Never"
        spec: dict[str, Any] = {"priority": priority, "preemptionPolicy": policy}
        if named:
            exactly = {"deviceClassName": "fairlead.dev", "capacity": {"requests": {"memory": f"{mib}Mi"}}}
            requests = {"devices": {"requests": [{"name": "it", "exactly": exactly}]}}
            self.api.create("resourceclaims", {"metadata": {"name": name}, "spec": requests})
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        if volume:
            wish = {"storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
            self.api.create("persistentvolumeclaims", {"metadata": {"name": name}, "spec": wish})
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        self._create(pod(name, mib=0 if named else mib, **spec))

    @rule(mib=sizes, priority=st.sampled_from([0, 10]))
    def create_gang(self, mib: int, priority: int) -> None:
        """Create a gang of two, unless there are many pods."""
        if len([*self.api.all("pods")]) < CROWD - 1:
            gang = f"gang-{next(self.names)}"
            notes = {"fairlead.dev/gang": gang, "fairlead.dev/gang-size": "2"}
            for number in range(2):
                self._create(pod(f"{gang}-{number}", mib=mib, notes=notes, priority=priority))

    def _create(self, wanted: Any) -> None:
        document = msgspec.to_builtins(wanted)
        for key in ("uid", "resourceVersion", "creationTimestamp"):
            document["metadata"].pop(key, None)
        self.api.create("pods", document)

    @rule(number=numbers)
    def delete_pod(self, number: int) -> None:
        """Delete a pod, bound or not."""
        names = [each["metadata"]["name"] for each in self.api.all("pods")]
        if names:
            self.api.delete("pods", names[number % len(names)])

    @rule()
    def provision(self) -> None:
        """Do what volume controllers do: provision the claims with a selected node, and bind them."""
        for document in [*self.api.all("persistentvolumeclaims")]:
            meta, spec = document["metadata"], document["spec"]
            chosen = meta.get("annotations", {}).get(SELECTED_NODE)
            if spec.get("volumeName") or not chosen:
                continue
            name = f"volume-{meta['name']}"
            terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [chosen]}]}]
            ref = {"namespace": "default", "name": meta["name"], "uid": meta["uid"]}
            affinity = {"required": {"nodeSelectorTerms": terms}}
            volume = {"metadata": {"name": name}, "spec": {"claimRef": ref, "nodeAffinity": affinity}}
            self.api.create("persistentvolumes", volume)
            path = VOLUME_CLAIMS.path("default", meta["name"])
            self.api.request("PATCH", path, f'{{"spec": {{"volumeName": "{name}"}}}}'.encode(), "merge")
            self.api.request("PATCH", f"{path}/status", b'{"status": {"phase": "Bound"}}', "merge")

    @rule()
    def tidy(self) -> None:
        """Do what controllers do: deallocate the claims of deleted pods."""
        alive = {each["metadata"]["uid"] for each in self.api.all("pods")}
        for document in [*self.api.all("resourceclaims")]:
            claim, meta = self.api.read(CLAIMS, document), document["metadata"]
            orphan = claim.users and alive.isdisjoint(claim.users)
            path = CLAIMS.path("default", meta["name"])
            if orphan and claim.made_by_scheduler:
                self.api.request("PATCH", path, b'{"metadata": {"finalizers": null}}', "merge")
                self.api.delete("resourceclaims", meta["name"])
            elif orphan and claim.results:
                free = b'{"status": {"reservedFor": null, "allocation": null}}'
                self.api.request("PATCH", f"{path}/status", free, "merge")

    @rule(index=replicas)
    def try_acquire_or_renew(self, index: int) -> None:
        self.replicas[index].try_acquire_or_renew()

    @rule(index=replicas)
    def work(self, index: int) -> None:
        self.replicas[index].work()

    @rule(index=replicas, kind=st.sampled_from(KINDS), most=st.integers(1, 9), twice=st.booleans())
    def observe(self, index: int, kind: Any, most: int, twice: bool) -> None:
        self.replicas[index].observe(kind, most, twice=twice)

    @rule(index=replicas)
    def relist(self, index: int) -> None:
        self.replicas[index].relist()

    @rule(number=numbers, fate=fates)
    def deliver(self, number: int, fate: Fate) -> None:
        """Deliver one of the requests in flight, according to its fate."""
        if self.effects.in_flight:
            self.deliver_one(self.effects.in_flight[number % len(self.effects.in_flight)], fate)

    def deliver_one(self, sent: SentEffect, fate: Fate = "done") -> None:
        self.effects.deliver(sent, fate)

    @rule(number=numbers)
    def arrive(self, number: int) -> None:
        """Perform a late write that its sender gave up, whichever replica leads now."""
        if self.effects.late:
            self.effects.arrive(number)

    @rule(index=replicas, times=st.integers(1, 12))
    def run_undisturbed(self, index: int, times: int) -> None:
        """Let a replica run undisturbed for a while, or until it has nothing to do."""
        replica = self.replicas[index]
        for number in range(times):
            before = self.api.version
            replica.observe_all()
            if not number:
                replica.try_acquire_or_renew()
            replica.work()
            mine = [each for each in self.effects.in_flight if each.owner is replica]
            for sent in mine:
                self.deliver_one(sent)
            if number and not mine and self.api.version == before:
                return

    @rule(
        others=st.integers(1, REPLICAS - 1),
        mib=sizes,
        more=sizes,
        steps=st.integers(0, 3),
        wakes=st.booleans(),
    )
    def stall(self, others: int, mib: int, more: int, steps: int, wakes: bool) -> None:
        """Stop the leader some steps after a decision; the next leader finds a pod of higher priority."""
        leader = next((at for at, each in enumerate(self.replicas) if each.machine.term is not None), 0)
        other = (leader + others) % REPLICAS
        self.clear()
        for size in (3072, mib):
            self.run_undisturbed(leader, 12)
            self.create_pod(size, named=False)
        self.run_undisturbed(other, 1)
        self.replicas[leader].observe_all()
        self.replicas[leader].work()
        for _ in range(steps):
            self.deliver_all(leader)
        self.pass_time(16.0)
        self.create_pod(more, named=False, priority=10)
        for _ in range(2):
            self.run_undisturbed(other, 12)
        if wakes:
            self.deliver_all(leader)

    @rule(mib=sizes, volume=st.booleans(), steps=st.integers(1, 6))
    def preempt(self, mib: int, volume: bool, steps: int) -> None:
        """Fill the devices, and create a pod of higher priority: others must be evicted for it."""
        leader = next((at for at, each in enumerate(self.replicas) if each.machine.term is not None), 0)
        self.clear()
        for _ in range(2):
            self.create_pod(4096, named=False)
        self.run_undisturbed(leader, 12)
        self.create_pod(mib, named=False, priority=10, preempts=True, volume=volume)
        self.run_undisturbed(leader, steps)

    def clear(self) -> None:
        """Delete all pods."""
        for name in [each["metadata"]["name"] for each in self.api.all("pods")]:
            self.api.delete("pods", name)
        self.tidy()

    @rule(index=replicas)
    def deliver_all(self, index: int) -> None:
        """Deliver everything that a replica has sent."""
        for sent in [each for each in self.effects.in_flight if each.owner is self.replicas[index]]:
            self.deliver_one(sent)

    @rule(seconds=st.sampled_from([1.0, 6.0, 11.0, 16.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(index=replicas)
    def kill(self, index: int) -> None:
        """Kill a replica and start another; what it sent may still arrive."""
        self.effects.abandon(self.replicas[index])
        self.replicas[index] = self.replica()

    @invariant()
    def no_device_is_allocated_twice(self) -> None:
        allocated = allocated_bytes(self.api.list_objects(PODS), self.api.list_objects(CLAIMS), DEVICE)
        over = {key: size for key, size in allocated.items() if size > DEVICE}
        assert not over, f"allocated twice: {over}"

    @invariant()
    def every_victim_was_bound_and_marked(self) -> None:
        for each in self.api.evicted:
            assert each["spec"].get("nodeName"), "a pod that was never bound was evicted"
            marks = [one for one in each["status"].get("conditions", []) if one["type"] == DISRUPTION]
            assert [one["status"] for one in marks] == ["True"], "it was evicted after its leader's term"

    @invariant()
    def every_bound_pod_reaches_its_volumes(self) -> None:
        for list_object_ in self.api.list_objects(PODS):
            for volume in list_object_.spec.volumes if list_object_.spec.node_name else ():
                claim = self.api.get("persistentvolumeclaims", volume.persistent_volume_claim.claim_name)
                made = self.api.get("persistentvolumes", claim["spec"]["volumeName"])
                (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
                assert term["matchFields"][0]["values"] == [list_object_.spec.node_name]

    def teardown(self) -> None:
        """Deliver everything: all caches equal that of a list, and no allocation is left."""
        self.settle()
        self.no_gang_is_bound_in_part()
        self.clear()
        self.settle()
        self.tidy()
        assert not allocated_bytes([], self.api.list_objects(CLAIMS), DEVICE)
        self.check_caches()
        self.check_nothing_is_left()

    def no_gang_is_bound_in_part(self) -> None:
        """Check that every gang with both its pods has both bound, or none."""
        gangs: dict[str, list[str]] = {}
        for list_object_ in self.api.list_objects(PODS):
            if gang := list_object_.metadata.annotations.get("fairlead.dev/gang"):
                gangs.setdefault(gang, []).append(list_object_.spec.node_name)
        whole = {gang: nodes for gang, nodes in gangs.items() if len(nodes) == 2}
        assert all(all(nodes) or not any(nodes) for nodes in whole.values()), whole

    def check_nothing_is_left(self) -> None:
        """Check that no replica keeps anything for deleted pods."""
        for replica in self.replicas:
            cache = replica.machine.cache
            kept = [*cache.being_bound, *cache.waiting_for_volumes, *cache.nominations]
            assert (kept, replica.machine.in_flight) == ([], 0)

    def settle(self) -> None:
        while self.effects.late:
            self.arrive(0)
            self.no_device_is_allocated_twice()
        for number in range(20):
            before = sum(len(self.api.history[kind.plural]) for kind in KINDS)
            if number < 2:
                self.pass_time(16.0)  # the leader's term is over, or it leads again
            else:
                self.tidy()  # a preemptor may wait for a claim that outlived its pod
            self.provision()
            for index in range(REPLICAS):
                self.run_undisturbed(index, 12)
                self.no_device_is_allocated_twice()
            after = sum(len(self.api.history[kind.plural]) for kind in KINDS)
            if number > 1 and before == after and not self.effects.in_flight:
                break
        else:
            raise AssertionError("the replicas do not settle")
        self.check_caches()

    def check_caches(self) -> None:
        """Check that the cache of each replica equals that of a list."""
        truth = SchedulerCache(catalogs.shipped())
        for surrounding in surroundings():
            truth.on_event(ObjectChange(None, surrounding))
        for kind in KINDS:
            for item in self.api.list_objects(kind):
                truth.on_event(ObjectChange(None, item))
        truth.sync()
        for replica in self.replicas:
            replica.observe_all()
            replica.machine.cache.sync()
            assert content(replica.machine.cache) == content(truth)


TestReplicaStateMachine = ReplicaStateMachine.TestCase
TestReplicaStateMachine.settings = settings(
    max_examples=1000 if LONG else 200,
    stateful_step_count=40 if LONG else 20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


class UnfencedReplica(SimulatedReplica):
    """A replica without fences."""

    def sends(self, effect: Effect) -> Effect:
        return unconditional(effect, unfenced)


class UnfencedStateMachine(ReplicaStateMachine):
    """The same steps without fences; how they end does not matter."""

    kind = UnfencedReplica

    def teardown(self) -> None:
        """End in the middle."""


def test_without_fences_steps_are_found_that_allocate_a_device_twice() -> None:
    bounded = settings(
        TestReplicaStateMachine.settings,
        max_examples=200,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        print_blob=False,
    )
    with pytest.raises(AssertionError, match="allocated twice"):
        run_state_machine_as_test(UnfencedStateMachine, settings=bounded)


def late_binding(play: ReplicaStateMachine) -> None:
    """Stop a leader after its decision; let the next bind two pods of higher priority; resume the first."""
    for number in range(REPLICAS):
        play.run_undisturbed(number, 12)
    play.create_pod(4096, named=False)
    play.replicas[0].observe_all()
    play.replicas[0].work()
    play.pass_time(16.0)
    for _ in range(2):
        play.create_pod(4096, named=False, priority=10)
    for _ in range(4):
        play.run_undisturbed(1, 12)
    for sent in [each for each in play.effects.in_flight if each.owner is play.replicas[0]]:
        play.deliver_one(sent)


@pytest.mark.parametrize("kind", [ReplicaStateMachine, UnfencedStateMachine])
def test_without_fences_a_late_binding_allocates_a_device_twice(
    kind: type[ReplicaStateMachine],
) -> None:
    play = kind()
    late_binding(play)
    bound = [each["spec"].get("nodeName", "") for each in play.api.all("pods")]
    if kind is ReplicaStateMachine:
        assert sorted(bound) == ["", "bindings", "claims"]
        play.no_device_is_allocated_twice()
        play.teardown()
    else:
        assert sorted(bound) == ["bindings", "bindings", "claims"]
        with pytest.raises(AssertionError, match="bindings"):
            play.no_device_is_allocated_twice()
