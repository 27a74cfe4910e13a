"""The guard of an accelerator: scenarios on a device of 100 GiB."""

from dataclasses import replace

from fairlead.sizing.guard import (
    EVICTION_TIME,
    SHRINK_TIME,
    Evict,
    GuardedDevice,
    GuardedPod,
    GuardState,
    Shrink,
    protect,
)
from fairlead.units import Bytes

GIB = 1 << 30
CALM = GuardState()


def pod(uid: str, use: float, priority: int = 0, *, growth: float = 0.0, progress: float = 0.0) -> GuardedPod:
    """Return a pod that holds some GiB and grows by some GiB a second."""
    return GuardedPod(uid, "shop", uid, priority, Bytes(round(use * GIB)), growth * GIB, progress=progress)


def elastic(uid: str, use: float, least: float, priority: int = 0) -> GuardedPod:
    return replace(pod(uid, use, priority), elastic=True, least=Bytes(round(least * GIB)))


def device(*pods: GuardedPod, foreign: float = 0.0) -> GuardedDevice:
    return GuardedDevice(Bytes(100 * GIB), pods, Bytes(round(foreign * GIB)))


def test_nothing_happens_while_the_forecast_fits() -> None:
    verdict = protect(device(pod("a", 60), pod("b", 36)), CALM, 0.0)
    assert (verdict.actions, verdict.forecast, verdict.missing) == ((), 96 * GIB, 0)


def test_the_guard_acts_on_the_forecast_before_the_memory_is_full() -> None:
    verdict = protect(device(pod("a", 60, 5), pod("b", 30, growth=0.5)), CALM, 0.0)
    assert [type(action) for action in verdict.actions] == [Evict], "90 GiB now, 105 within two samples"
    limited = replace(pod("b", 30, growth=0.5), limit=Bytes(35 * GIB))
    assert protect(device(pod("a", 60, 5), limited), CALM, 0.0).actions == (), "a limit ends its growth"


def test_elastic_pods_shrink_first_the_largest_excess_first_and_no_further_than_needed() -> None:
    verdict = protect(device(pod("plain", 50), elastic("small", 20, 15), elastic("large", 29, 10)), CALM, 0.0)
    assert verdict.actions == (Shrink("large", Bytes(22 * GIB), verdict.actions[0].reason),)
    assert verdict.forecast == 92 * GIB
    assert verdict.actions[0].reason == (
        "the pods of an accelerator with 100 GiB will hold 99 GiB within 30 s; the pod runs in 10 GiB"
    )


def test_no_pod_shrinks_below_its_least_size_and_the_next_one_follows() -> None:
    verdict = protect(device(pod("plain", 60), elastic("a", 20, 16), elastic("b", 20, 17)), CALM, 0.0)
    assert [(each.pod_uid, each.to) for each in verdict.actions if isinstance(each, Shrink)] == [
        ("a", 16 * GIB),
        ("b", 17 * GIB),
    ]
    assert len(verdict.actions) == 2, "93 GiB fits: no pod is evicted"


def test_the_lowest_priority_is_evicted_then_what_loses_the_least_work() -> None:
    pods = (pod("high", 40, 10), pod("old", 30, 1, progress=900), pod("new", 30, 1, progress=20))
    verdict = protect(device(*pods), CALM, 0.0)
    assert [action.pod_uid for action in verdict.actions] == ["new"]
    assert verdict.actions[0].reason == (
        "the pods of an accelerator with 100 GiB will hold 100 GiB within 30 s; "
        "the pod has the lowest priority there (1)"
    )
    kept = tuple(replace(each, evictable=each.uid == "high") for each in pods)
    assert [action.pod_uid for action in protect(device(*kept), CALM, 0.0).actions] == ["high"]


def test_among_equals_a_pod_that_holds_more_than_it_was_placed_for_is_evicted_first() -> None:
    modest = replace(pod("modest", 5.0, progress=1.0), placed=Bytes(6 * GIB))
    greedy = replace(pod("greedy", 5.0, progress=9000.0), placed=Bytes(4 * GIB))
    limited = replace(pod("limited", 5.0, progress=9000.0), limit=Bytes(4 * GIB), placed=Bytes(6 * GIB))
    for each in (greedy, limited):
        (action,) = protect(GuardedDevice(Bytes(10 * GIB), (modest, each)), GuardState(), 0.0).actions
        assert isinstance(action, Evict)
        assert action.pod_uid == each.uid
        assert "more than it was placed for" in action.reason
    low = replace(modest, uid="low", priority=-1)
    (action,) = protect(GuardedDevice(Bytes(10 * GIB), (low, greedy)), GuardState(), 0.0).actions
    assert action.pod_uid == "low"


def test_growth_counts_up_to_what_is_expected_and_beyond_what_the_pod_was_placed_for() -> None:
    starting = replace(pod("a", 1.0, growth=0.5), expected=Bytes(3 * GIB), placed=Bytes(2 * GIB))
    assert starting.ahead(30.0) == 3 * GIB
    assert replace(starting, use=Bytes(round(2.5 * GIB))).ahead(30.0) == 17.5 * GIB


def test_foreign_use_counts_and_what_cannot_be_freed_is_said() -> None:
    stuck = replace(pod("a", 40), evictable=False)
    verdict = protect(device(stuck, foreign=60), CALM, 0.0)
    assert verdict.actions == ()
    assert verdict.missing == 3 * GIB


def test_one_event_evicts_once_until_the_pod_should_be_gone() -> None:
    full = device(pod("high", 60, 10), pod("low", 25, 1), pod("next", 15, 2))
    first = protect(full, CALM, 0.0)
    assert [action.pod_uid for action in first.actions] == ["low"]
    second = protect(full, first.state, 15.0)
    assert second.actions == (), "the pod is on its way out"
    third = protect(full, second.state, EVICTION_TIME)
    assert [action.pod_uid for action in third.actions] == ["low"], "it did not go"
    gone = device(pod("high", 60, 10), pod("next", 15, 2))
    assert protect(gone, first.state, 15.0).state == CALM


def test_a_shrink_is_given_its_time_and_leads_to_an_eviction_if_it_does_not_help() -> None:
    full = device(pod("high", 60, 10), elastic("elastic", 39, 10, priority=5), pod("low", 1))
    first = protect(full, CALM, 0.0)
    assert [type(action) for action in first.actions] == [Shrink]
    assert protect(full, first.state, SHRINK_TIME - 1).actions == ()
    late = protect(full, first.state, SHRINK_TIME)
    assert [(type(action), action.pod_uid) for action in late.actions] == [(Evict, "low"), (Evict, "elastic")]
    helped = device(pod("high", 60, 10), elastic("elastic", 30, 10, priority=5), pod("low", 1))
    assert protect(helped, first.state, SHRINK_TIME).actions == ()
