"""The published policies place by the measured free memory of accelerators, the largest pod first."""

from tests.serve.scheduler.use.world import SharedNode


def test_cbp_places_beside_a_pod_that_uses_little_of_its_request() -> None:
    it = SharedNode("cbp")
    it.create("a", 6144)
    for _ in range(19):
        it.measure({"a": 1.5})
    it.create("b", 6144)
    assert it.bound() == ["a"]  # too few samples
    it.now += 60  # its condition is written by now
    it.run()
    it.measure({"a": 1.5})
    assert it.bound() == ["a", "b"]
    assert it.claimed("b") == "6144Mi"  # the published rules do not resize it
    it.create("c", 6144)
    assert it.bound() == ["a", "b"]  # a grant holds for one placement


def test_res_ag_goes_by_requests_alone() -> None:
    it = SharedNode("res-ag")
    it.create("a", 6144)
    for _ in range(21):
        it.measure({"a": 1.5})
    it.create("b", 6144)
    assert it.bound() == ["a"]


def test_nothing_is_granted_where_the_agent_would_refuse_the_claim() -> None:
    it = SharedNode("cbp", agent=False)
    it.create("a", 6144)
    for _ in range(21):
        it.measure({"a": 1.5})
    it.create("b", 6144)
    assert it.bound() == ["a"]


def test_the_largest_pod_comes_first() -> None:
    it = SharedNode("cbp")
    it.measure({})
    it.create("a", 8192)
    it.create("small", 2048)
    it.create("large", 8192)
    it.delete("a")
    assert it.bound() == ["large"]
