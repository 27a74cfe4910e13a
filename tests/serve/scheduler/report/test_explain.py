"""The explanation of a pending pod: the sentence of its condition, and what would let it fit."""

from typing import Any

import pytest
from msgspec.structs import replace

from fairlead import keys
from fairlead.cache.types import LivePod
from fairlead.catalog import Catalog
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.modelprofiles.analysed import analysed_profile
from fairlead.schedule import POLICIES
from fairlead.serve.scheduler.cycle.scheduling import SchedulingCycle
from fairlead.serve.scheduler.events import Explain
from fairlead.serve.scheduler.report.explain import Explainer, lease_annotations
from fairlead.settings import Address
from tests.estimate.networks import network
from tests.profiles import MADE
from tests.serve.scheduler.cycle.test_cycle import cycle_of, gang, run_all
from tests.serve.scheduler.objects import device_slice, node, pod

FAIRLEAD = POLICIES["fairlead"]


def explain(cycle: SchedulingCycle, name: str, now: float = 0.0) -> dict[str, Any]:
    return Explainer(cycle, "me", "fairlead").answer(Explain("default", name, f"uid-{name}"), now)


def full(catalog: Catalog, *others: Any) -> SchedulingCycle:
    """Return a cycle in which no other pod fits on the only two accelerators."""
    taken = [pod(name, on="n", mib=4096) for name in "xy"]
    cycle = cycle_of(catalog, node("n"), device_slice("n"), *taken, *others)
    run_all(cycle)
    return cycle


def test_an_explanation_has_the_sentence_of_the_condition_and_what_would_fit(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n"), pod("x", on="n", mib=3072), pod("a", mib=8192))
    cycle.run(0.0)
    answer = explain(cycle, "a")
    assert answer["sentence"] == cycle.reporter.take(0.0, 9)["uid-a"]
    assert (answer["state"], answer["placed"], answer["leader"]) == ("unschedulable", False, "me")
    assert answer["queueing_hints"] == ["NodeChanged", "PodDeleted"]
    assert answer["retry_in_seconds"] == 300
    assert answer["changes"][0]["text"].startswith("ask for 4.0 GiB")
    assert "smallest change" not in answer["sentence"]


def test_a_pod_with_an_slo_waits_where_the_latency_is_not_known_and_the_reason_says_so(
    catalog: Catalog,
) -> None:
    notes = {keys.MODEL: "mobilenet_v1", keys.COUNT: "1"}
    profile = analysed_profile(network("mobilenet_v1"), MADE, "n")
    slow = pod("slow", notes={**notes, keys.SLO: "5s"})
    cycle = cycle_of(catalog, node("n"), device_slice("n", model="v340"), profile, slow)
    cycle.run(0.0)
    answer = explain(cycle, "slow")
    why = "not known: no peak in the catalog; calibrate, or add a row"
    assert f"have no estimate to hold against the SLO ({why})" in answer["sentence"]
    assert [change["text"] for change in answer["changes"]] == [
        "drop the SLO: the latency on v340 is not known"
    ]
    patient = cycle_of(
        catalog, node("n"), device_slice("n", model="v340"), profile, pod("patient", notes=notes)
    )
    patient.run(0.0)
    answer = explain(patient, "patient")
    assert answer["placed"]
    assert answer["unknown"] == [f"its latency on v340 is {why}; policy fairlead {FAIRLEAD.with_unknown}"]


def test_sentence_and_changes_are_of_one_state_of_the_cluster(catalog: Catalog) -> None:
    cycle = full(catalog, pod("a", mib=8192))
    assert "most 0 B free" in cycle.reporter.take(0.0, 9)["uid-a"]
    cycle.cache.on_event(
        ObjectChange(pod("y", on="n", mib=4096), pod("y", on="n", mib=4096, phase="Succeeded"))
    )
    cycle.refresh(40.0)
    assert not cycle.queue.has_active, "what became free is too little: the pod stays unschedulable"
    answer = explain(cycle, "a", 40.0)
    assert "most 4.0 GiB free" in answer["sentence"]
    assert answer["changes"][0]["text"].startswith("ask for 4.0 GiB")
    assert answer["decided_seconds_ago"] == 0


def test_a_pod_that_fits_meanwhile_gets_the_age_of_its_refusal_and_no_changes(catalog: Catalog) -> None:
    cycle = full(catalog, pod("a", mib=1024))
    cycle.cache.on_event(
        ObjectChange(pod("y", on="n", mib=4096), pod("y", on="n", mib=4096, phase="Succeeded"))
    )
    cycle.refresh(40.0)
    answer = explain(cycle, "a", 40.0)
    assert (answer["state"], answer["changes"], answer["decided_seconds_ago"]) == ("active", [], 40)
    assert "most 0 B free" in answer["sentence"]
    assert answer["note"] == "it fits as the cluster is now, and is tried again"


def test_an_explanation_of_a_gang_changes_nothing(catalog: Catalog) -> None:
    cycle = full(catalog, gang("a"), gang("b"))
    before = set(map(repr, cycle.cache.cluster.placements()))
    answer = explain(cycle, "a")
    assert "gang" in answer["sentence"]
    assert answer["decided_seconds_ago"] == 0
    assert set(map(repr, cycle.cache.cluster.placements())) == before


def test_a_sentence_that_is_too_long_is_shortened_alike_everywhere(catalog: Catalog) -> None:
    name = "a" * 2000
    cycle = full(catalog, pod(name, mib=1024))
    answer = explain(cycle, name)["sentence"]
    assert answer == cycle.reporter.take(0.0, 9)[f"uid-{name}"]
    assert len(answer) == 1000


def test_a_pod_without_a_decision_is_active(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n"), pod("a", mib=1024))
    answer = explain(cycle, "a")
    assert (answer["state"], answer["sentence"]) == ("active", "a is in the active queue")


def test_a_pod_that_is_being_bound_has_its_node_in_the_explanation(catalog: Catalog) -> None:
    cycle = cycle_of(catalog, node("n"), device_slice("n"), pod("a", mib=1024))
    cycle.run(0.0)
    answer = explain(cycle, "a")
    assert (answer["state"], answer["placed"], answer["node"]) == ("in-flight", True, "n")

    cycle.record_failure("uid-a", 1.0)
    cycle.refresh(1.0)
    answer = explain(cycle, "a")
    assert (answer["placed"], answer["node"]) == (False, None)
    assert answer["sentence"].endswith("but its binding failed and is tried again")


def test_an_unreadable_pod_has_its_reason_in_the_explanation(catalog: Catalog) -> None:
    odd = pod("odd", notes={"fairlead.dev/gpu-compute": "many"})
    answer = explain(cycle_of(catalog, node("n"), odd), "odd")
    assert answer["state"] == "unreadable"
    assert "fairlead.dev/gpu-compute" in answer["sentence"]


def test_a_member_of_a_gang_has_the_reason_of_its_gang(catalog: Catalog) -> None:
    answer = explain(full(catalog, gang("a"), gang("b")), "a")
    assert "gang" in answer["sentence"]
    assert answer["state"] == "unschedulable"


def test_the_explanation_of_a_preemptor_names_its_pending_victims(catalog: Catalog) -> None:
    answer = explain(full(catalog, pod("vip", mib=4096, priority=10)), "vip")
    assert answer["pending_victims"] in (["default/x"], ["default/y"])


def test_no_pod_of_another_namespace_is_named(catalog: Catalog) -> None:
    taken = [elsewhere(pod(f"secret-{number}", on="n", mib=4096)) for number in range(2)]
    waiting = pod("vip", mib=4096, priority=10), pod("meek", mib=4096)
    cycle = cycle_of(catalog, node("n"), device_slice("n"), *taken, *waiting)
    run_all(cycle)
    assert explain(cycle, "vip")["pending_victims"] == ["1 of other namespaces"]
    meek = explain(cycle, "meek")
    assert "which evicts 1 of other namespaces" in str(meek["changes"])
    assert "secret" not in str([explain(cycle, "vip"), meek])


@pytest.mark.parametrize(
    ("namespace", "name", "uid"),
    [("default", "a", ""), ("default", "a", "uid-b"), ("default", "b", "uid-a"), ("theirs", "a", "uid-a")],
)
def test_without_its_uid_a_pod_is_unknown_like_one_that_does_not_exist(
    catalog: Catalog, namespace: str, name: str, uid: str
) -> None:
    explainer = Explainer(full(catalog, pod("a", mib=8192)), "me", "fairlead")
    answer = explainer.answer(Explain(namespace, name, uid), 0.0)
    assert answer == {"leader": "me", "scheduler": "fairlead", **unknown(namespace, name)}


def unknown(namespace: str, name: str) -> dict[str, str]:
    return {"namespace": namespace, "name": name, "state": "unknown"}


def elsewhere(one: LivePod) -> LivePod:
    return replace(one, metadata=replace(one.metadata, namespace="theirs"))


@pytest.mark.parametrize("name", ["x", "none"])
def test_a_pod_that_is_not_pending_is_unknown(catalog: Catalog, name: str) -> None:
    assert explain(full(catalog), name)["state"] == "unknown"


def test_changes_are_kept_and_none_are_computed_during_a_rest(catalog: Catalog) -> None:
    cycle = full(catalog, pod("a", mib=8192), pod("b", mib=8100))
    explainer = Explainer(cycle, "me", "fairlead")
    first = explainer.answer(Explain("default", "a", "uid-a"), 1.0)
    again = explainer.answer(Explain("default", "a", "uid-a", rest=9.0), 2.0)
    assert (first["note"], again["note"]) == ("", "")
    assert again["changes"] == first["changes"]
    other = explainer.answer(Explain("default", "b", "uid-b", rest=7.0), 3.0)
    assert other["changes"] == []
    assert other["note"] == "what would let it fit was not computed: ask again in 7 s"
    assert other["sentence"].startswith("0 of 2 accelerators can take b")
    assert other["decided_seconds_ago"] > 0, "the sentence is of the last decision, with its age"
    assert explainer.answer(Explain("default", "b", "uid-b"), 10.0)["note"] == ""


def test_an_answer_is_computed_again_after_a_while(catalog: Catalog) -> None:
    explainer = Explainer(full(catalog, pod("a", mib=8192)), "me", "fairlead")
    ages = [explainer.answer(Explain("default", "a", "uid-a"), now) for now in (1.0, 10.9, 11.0)]
    assert [age["decided_seconds_ago"] for age in ages] == [0, 9.9, 0]


def test_a_deleted_pod_is_unknown(catalog: Catalog) -> None:
    cycle = full(catalog, pod("a", mib=8192))
    cycle.cache.on_event(ObjectChange(pod("a", mib=8192), None))
    cycle.refresh(1.0)
    assert (explain(cycle, "a")["state"], cycle.last_decisions) == ("unknown", {})


@pytest.mark.parametrize(
    ("where", "environ", "address", "named"),
    [
        (Address("127.0.0.1", 1), {}, "127.0.0.1:1", ""),
        (Address("::", 1), {}, "box:1", ""),
        (
            Address("0.0.0.0", 1),
            {"POD_NAME": "p", "POD_NAMESPACE": "s", "POD_IP": "10.0.0.7"},
            "10.0.0.7:1",
            "s/p:1",
        ),
        (Address("127.0.0.1", 1), {"POD_NAME": "p", "POD_NAMESPACE": "s"}, "127.0.0.1:1", ""),
    ],
)
def test_the_lease_shows_where_its_holder_answers(
    where: Address, environ: dict[str, str], address: str, named: str
) -> None:
    assert lease_annotations(where, "fairlead", environ, "box") == {
        keys.LEADS_FOR: "fairlead",
        keys.LEADER_ADDRESS: address,
        keys.LEADER_POD: named,
    }


def test_nodes_that_cannot_be_read_are_counted_and_not_named(catalog: Catalog) -> None:
    newer = pod("z", on="m", mib=1024, notes={keys.PLACEMENT: '{"version":2}'})
    cycle = full(catalog, node("m"), device_slice("m"), newer, pod("a", mib=1024))
    assert explain(cycle, "a")["note"] == "1 node cannot be read: no pods are placed there"
