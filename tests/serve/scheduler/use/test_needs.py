"""Pods are placed by what their workload was seen to use, and by their requests where nothing is known."""

import pytest

from fairlead import keys
from fairlead.need import NeedSource
from fairlead.request import Expectation, Request
from fairlead.series import Series, Staleness
from fairlead.serve.scheduler.events import Explain
from fairlead.serve.scheduler.use import pod_facts
from fairlead.serve.scheduler.use.needs import NAMED_CLAIM, NO_CLAIMS
from fairlead.sizing.needs import need_of
from fairlead.units import Bytes
from fairlead.use import UseFault
from tests.serve.scheduler.use.world import GIB, SharedNode


def test_a_pod_is_placed_by_what_others_of_its_image_used() -> None:
    it = SharedNode()
    it.create("a", 6144)
    assert it.bound() == []  # right after the start the first report is awaited
    it.measure({})
    it.create("b", 6144)
    assert (it.bound(), it.claimed("a"), it.source("b")) == (["a"], "6144Mi", "request")
    it.delete("b")
    it.delete("a")
    it.learn()
    it.create("c", 6144)
    it.create("d", 6144)
    assert it.bound() == ["c", "d"]
    assert it.source("c") == "history"
    assert 1.5 < it.size("c") < 2.25
    claims = [claim["metadata"]["annotations"] for claim in it.api.all("resourceclaims")]
    assert [notes.get(keys.BY_USE) for notes in claims] == ["1", "1"]
    it.measure({"c": 1.5})
    document = _explained(it, "c", it.pod("c").metadata.uid)
    assert (document["state"], document["need"]["source"]) == ("bound", "history")
    assert "by history" in document["note"]


def test_a_pod_that_was_bound_by_its_request_makes_room_once_it_is_known() -> None:
    it = SharedNode()
    it.measure({})
    it.create("a", 6144)
    it.create("b", 3072, "other:1")
    assert it.bound() == ["a"]
    for _ in range(45):  # an unknown image may grow for ten minutes
        it.measure({"a": 1.5})
    assert it.source("a") == "observed"
    assert it.bound() == ["a", "b"]  # their claims sum to more than there is
    assert (it.claimed("a"), it.claimed("b")) == ("6144Mi", "3072Mi")


def test_a_bound_pod_counts_for_what_it_may_hold_and_headroom_stays_free() -> None:
    it = SharedNode()
    it.learn()
    it.create("a", 6144)
    for _ in range(12):
        it.measure({"a": 1.5})
    headroom = 0.15 * 8
    assert 8 - 2.5 - headroom < it.free() < 8 - 1.5 - headroom


def test_headroom_stays_free_from_the_decision_on() -> None:
    it = SharedNode()
    it.learn()
    it.create("a", 6144)
    left = 8 - it.size("a") - 0.15 * 8
    assert it.free() == pytest.approx(left, abs=0.01)
    it.create("theirs", 0, nodeName="n1", schedulerName="default-scheduler")  # the node is counted again
    assert it.free() == pytest.approx(left, abs=0.01)
    it.delete("a")
    it.measure({})
    assert it.free() == 8


def test_where_the_agent_does_not_know_such_claims_they_never_sum_to_more_than_there_is() -> None:
    it = SharedNode(agent=False)
    it.learn()
    it.create("a", 6144)
    assert it.size("a") < 2.25
    it.delete("a")
    it.create("big", 6144, "other:1")
    it.create("b", 3072, "third:1")
    for _ in range(45):
        it.measure({"big": 1.5})
    assert it.source("big") == "observed"
    assert it.bound() == ["big"]
    assert it.free() == pytest.approx(8 - 6)


def test_without_claims_of_its_own_requests_decide() -> None:
    it = SharedNode(own_claims=False)
    it.learn()
    it.create("a", 6144)
    it.create("b", 6144)
    it.measure({"a": 1.5})
    b = it.replica.machine.use.tracker.need(it.pod("b").metadata.uid)
    assert it.bound() == ["a"]
    assert b is not None
    assert (b.source.value, b.note) == ("request", NO_CLAIMS)


def test_a_pod_that_names_its_claim_goes_by_it() -> None:
    it = SharedNode()
    it.learn()
    exactly = {"deviceClassName": "fairlead.dev", "capacity": {"requests": {"memory": "6Gi"}}}
    spec = {"devices": {"requests": [{"name": "it", "exactly": exactly}]}}
    for name in ("mine", "other"):
        it.api.create("resourceclaims", {"metadata": {"name": name}, "spec": spec})
    it.create("a", 0, resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    claim = it.api.get("resourceclaims", "mine")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["consumedCapacity"]["memory"] == "6144Mi"
    assert claim["metadata"]["annotations"][keys.BY_USE] == "1"
    it.create("b", 0, resourceClaims=[{"name": "gpu", "resourceClaimName": "other"}])
    it.measure({"a": 1.5})
    need = it.replica.machine.use.tracker.need(it.pod("b").metadata.uid)
    assert need is not None
    assert (need.source.value, need.peak, need.note) == ("request", 6 * GIB, NAMED_CLAIM)


def test_a_limit_is_written_with_the_binding_and_counts() -> None:
    it = SharedNode()
    it.measure({})
    it.create("a", 6144, notes={keys.MEMORY_LIMIT: str(2 << 30)})
    assert it.claimed("a") == "2048Mi"
    assert it.pod("a").metadata.annotations[keys.MEMORY_LIMIT] == str(2 << 30)
    for _ in range(3):
        it.measure({"a": 1.9})
    assert it.free() == pytest.approx(6.0)  # firm: no headroom
    it.measure({"a": 2.5})
    assert it.free() < 6.0 - 0.15 * 8


def test_an_elastic_pod_is_offered_what_is_free_and_no_less_than_it_runs_in() -> None:
    it = SharedNode()
    it.measure({})
    it.state("engine:1", least=0.5, full=1.5)
    for number in range(8):
        it.create(f"elastic-{number}", 6144)
    assert [it.claimed(f"elastic-{number}") for number in (0, 7)] == ["1536Mi", "512Mi"]
    assert it.pod("elastic-0").metadata.annotations[keys.MEMORY_LIMIT] == str(1536 << 20)
    assert len(it.bound()) == 8
    assert 0 <= it.free() < 0.5


def test_a_running_pod_goes_by_the_history_of_its_tag_while_its_digest_has_none() -> None:
    it = SharedNode()
    it.learn("engine:1", gib=1.5)
    it.create("a", 6144, "engine:1")
    digest = f"registry.example.org/engine@sha256:{'1' * 64}"
    it.patch_status("a", {"phase": "Running", "containerStatuses": [{"name": "main", "imageID": digest}]})
    for _ in range(3):
        it.measure({"a": 1.0})
    assert it.source("a") in {"history", "observed"}
    assert it.size("a") < 3.0


def test_foreign_use_is_not_handed_out() -> None:
    it = SharedNode()
    it.measure({}, foreign=3.0)
    assert it.free() == pytest.approx(5.0, abs=0.1)
    it.create("a", 6144)
    assert it.bound() == []
    it.measure({}, foreign=0.0)
    assert it.bound() == ["a"]


@pytest.mark.parametrize(
    "fault", [UseFault.UNREACHABLE, UseFault.GARBAGE, UseFault.NO_SERIES, UseFault.RESET, UseFault.LIMIT]
)
def test_a_source_that_fails_leaves_requests_and_says_why(fault: UseFault) -> None:
    it = SharedNode()
    it.learn()
    it.measure({})
    for _ in range(5):
        it.fail(fault)
    it.create("a", 6144)
    assert it.claimed("a") == "6144Mi"
    assert it.source("a") in ("", "request")
    late = it.create("b", 6144)
    assert it.bound() == ["a"]
    document = _explained(it, "b", late)
    assert document["need"]["source"] == "request"
    assert document["telemetry"]["staleness"] == "stale"
    assert fault.value in document["note"]
    assert "no route to host" in document["need"]["note"]
    it.measure({"a": 1.5})
    assert it.bound() == ["a", "b"]  # as soon as there are fresh figures
    assert it.size("b") < 2.25


def test_a_fault_shows_within_one_refresh() -> None:
    it = SharedNode()
    it.learn()
    it.create("a", 20000, "another:1")
    it.fail(UseFault.UNREACHABLE)
    document = _explained(it, "a", it.pod("a").metadata.uid)
    assert "unreachable" in document["telemetry"]["reason"]
    page = it.replica.machine.gauges(it.now).use
    assert page is not None
    faults = next(each for each in page.families if each.name == "fairlead_usage_faults_total")
    assert faults.series["unreachable",] == 1.0


def test_figures_that_lag_are_not_used() -> None:
    it = SharedNode()
    it.learn()
    for _ in range(6):
        it.measure({}, lag=300.0)
    it.create("a", 6144)
    assert it.claimed("a") == "6144Mi"


def test_silence_is_noticed_without_a_report() -> None:
    it = SharedNode()
    it.learn()
    for _ in range(8):
        it.now += 15
        it.run()
    it.create("a", 6144)
    assert it.claimed("a") == "6144Mi"


def test_bound_pods_count_by_their_requests_while_nothing_is_measured() -> None:
    it = SharedNode()
    it.learn()
    it.create("a", 6144)
    for _ in range(12):
        it.measure({"a": 1.5})
    assert it.free() > 5
    for _ in range(6):
        it.fail(UseFault.UNREACHABLE)
    assert it.free() == pytest.approx(2.0)


def test_with_the_default_policy_nothing_is_derived_or_written() -> None:
    it = SharedNode("fairlead", usage=False)
    it.create("a", 6144)
    it.create("b", 6144)
    assert (it.bound(), it.claimed("a"), it.source("b")) == (["a"], "6144Mi", "")
    assert it.replica.machine.gauges(it.now).use is None
    assert "need" not in _explained(it, "b", it.pod("b").metadata.uid)
    assert not list(it.api.all("configmaps"))


def _explained(it: SharedNode, name: str, uid: str) -> dict:  # type: ignore[type-arg]  # a document
    effects = it.replica.machine.handle(Explain("default", name, uid), it.now)
    (explained,) = [each for each in effects if hasattr(each, "document")]
    return dict(explained.document)


def test_the_profile_of_a_model_sizes_its_pods_before_any_has_run() -> None:
    estimates = {"t4": Expectation(memory=Bytes(2 << 30)), "a100": Expectation(memory=Bytes(1 << 30))}
    footprint = pod_facts.estimated_footprint(Request("a", estimates=estimates))
    need = need_of(Bytes(6 << 30), footprint, Series(), None, 0.0, Staleness.FRESH)
    assert (need.source, need.peak, need.firm) == (NeedSource.PROFILE, round(2.5 * GIB), False)
    assert pod_facts.estimated_footprint(Request("a", estimates={"t4": Expectation()})) is None
