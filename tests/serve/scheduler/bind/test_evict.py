"""A pod is evicted on the version that carries its mark, and only while a preemptor needs it."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import DISRUPTION, PODS, LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.errors import ConflictError, TooManyRequestsError
from fairlead.serve.machine.clock import MachineClock
from fairlead.serve.machine.flow import Effect, Sleep
from fairlead.serve.scheduler.bind import evict
from fairlead.serve.scheduler.bind.evict import Evictor
from fairlead.serve.scheduler.cycle.preemption import UNNEEDED
from fairlead.serve.scheduler.leader.election import SchedulerTerm
from fairlead.serve.scheduler.leader.failover import Failover
from tests.serve.scheduler.bind.test_binder import always, binder, fences
from tests.serve.scheduler.flows import Fate, Wire, run
from tests.serve.scheduler.objects import pod, read

BOTH = [("PATCH", "pods/low/status"), ("POST", "pods/low/eviction")]


def victim(wire: Wire) -> LivePod:
    document = msgspec.to_builtins(pod("low", on="n", mib=1024))
    bound: LivePod = read(PODS, wire.api.create("pods", document))
    return bound


def evicted(
    wire: Wire,
    one: LivePod,
    needed: Callable[[], bool] = lambda: True,
    leads: Callable[[int], bool] = always,
) -> str:
    return run(
        Evictor(leads, MachineClock()).evict(one, evict.for_preemptor("shop/vip"), 3, needed), wire.perform
    )


def condition(wire: Wire) -> dict[str, Any]:
    (disruption,) = [
        each for each in wire.api.get("pods", "low")["status"]["conditions"] if each["type"] == DISRUPTION
    ]
    return dict(disruption)


def test_a_victim_is_marked_with_its_preemptor_then_evicted() -> None:
    wire = Wire()
    assert evicted(wire, victim(wire)) == ""
    assert wire.requests[:2] == BOTH
    (gone,) = wire.api.evicted
    (disruption,) = gone["status"]["conditions"]
    assert disruption["message"].endswith("preempting to accommodate shop/vip")


def test_a_pod_that_changed_meanwhile_is_read_again_and_evicted() -> None:
    wire = Wire()
    one = victim(wire)
    wire.api.request(
        "PATCH", "/api/v1/namespaces/default/pods/low/status", b'{"status": {"phase": "Running"}}', "merge"
    )
    assert evicted(wire, one) == ""
    assert [pod["status"]["phase"] for pod in wire.api.evicted] == ["Running"]


def test_an_eviction_that_a_budget_forbids_is_reported_and_the_mark_removed() -> None:
    def fate(method: str, path: str) -> Fate:
        return TooManyRequestsError("it would violate web-pdb") if path.endswith("/eviction") else None

    wire = Wire(fate)
    assert evicted(wire, victim(wire)) == "it would violate web-pdb"
    assert condition(wire)["status"] == "False"


@pytest.mark.parametrize(
    ("needs", "leads"), [((), (True,)), ((True, False), (True, True)), ((True, True), (True, False))]
)
def test_no_pod_is_evicted_for_a_pod_that_is_not_pending_or_by_a_replica_that_no_longer_leads(
    needs: tuple[bool, ...], leads: tuple[bool, ...]
) -> None:
    wire, still, terms = Wire(), iter(needs), iter(leads)
    answer = evicted(wire, victim(wire), lambda: next(still, False), lambda epoch: next(terms, False))
    assert answer == UNNEEDED
    assert wire.api.evicted == []
    if len(needs) > 1:
        assert condition(wire)["status"] == "False"


def test_an_eviction_whose_answer_was_lost_counts_as_done() -> None:
    wire = Wire(lambda method, path: "lost" if path.endswith("/eviction") else None)
    assert evicted(wire, victim(wire)) == ""
    assert len(wire.api.evicted) == 1


def test_a_new_leader_removes_the_mark_so_that_a_late_eviction_fails(catalog: Catalog) -> None:
    wire, cache = Wire(), SchedulerCache(catalog)
    marked = read(
        PODS, json.loads(wire.perform(evict.mark(victim(wire), evict.for_preemptor("shop/vip"), "now")))
    )
    assert marked.is_victim
    late = evict.eviction(marked)

    def perform(effect: Effect) -> Any:
        """Perform an effect; while the flow sleeps, the watch of pods catches up."""
        if isinstance(effect, Sleep):
            for list_object_ in wire.api.list_objects(PODS):
                cache.on_event(ObjectChange(None, list_object_))
        return wire.perform(effect)

    failover = Failover(cache, binder(), fences(), MachineClock(), "fairlead", claims=False)
    assert run(failover.fence_previous(SchedulerTerm(4, clean=False)), perform) == 0, "no pod waits"
    with pytest.raises(ConflictError):
        wire.perform(late)
    assert wire.api.evicted == []
    assert condition(wire)["status"] == "False"
    assert condition(wire)["message"] == "fairlead-scheduler: leader 4 decides again"
    assert wire.slept, "decisions are safe when the cache has observed it"
