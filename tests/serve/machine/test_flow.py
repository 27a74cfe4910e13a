"""Flows: what they yield leaves as effects with ids, and the answer to an id resumes its flow."""

from typing import Any

import pytest

from fairlead.errors import ClusterError, ConflictError
from fairlead.serve.machine.flow import Answered, Effect, Flow, Flows, Lock, Log, Sleep, Together


def ask(seconds: float, answers: list[Any]) -> Flow[Any]:
    """Yield an effect, and record the answer or the error."""
    try:
        answer = yield Sleep(seconds)
    except ClusterError as error:
        answers.append(str(error))
        raise
    answers.append(answer)
    return answer


def taken_effects(flows: Flows) -> list[tuple[int, float]]:
    """Take the effects: their ids and seconds."""
    return [(each.id, each.seconds) for each in flows.take() if isinstance(each, Sleep)]


def follow(flow: Flow[Any], results: list[Any]) -> Flow[None]:
    """Record the result of a flow, or its error."""
    try:
        results.append((yield from flow))
    except ClusterError as error:
        results.append(error)


def test_a_flow_resumes_with_the_answer_to_its_effect() -> None:
    flows = Flows()
    answers: list[Any] = []
    ended: list[str] = []
    flows.start(ask(1.0, answers), lambda: ended.append("ended"))
    assert flows.take() == [Sleep(1.0, id=1)]
    assert (flows.take(), answers, ended) == ([], [], [])
    flows.resume(Answered(1, "yes"))
    assert (answers, ended) == (["yes"], ["ended"])


def test_effects_are_numbered_in_the_order_of_their_yields() -> None:
    flows, answers = Flows(), list[Any]()
    for seconds in (1.0, 2.0):
        flows.start(ask(seconds, answers))
    assert taken_effects(flows) == [(1, 1.0), (2, 2.0)]
    flows.start(ask(3.0, answers))
    assert taken_effects(flows) == [(3, 3.0)], "ids are never used again"
    for number in (3, 1, 2):
        flows.resume(Answered(number, number))
    assert answers == [3, 1, 2]


def test_an_effect_that_is_emitted_has_no_id_and_keeps_its_place() -> None:
    flows = Flows()
    flows.start(ask(1.0, []))
    flows.emit(Log("line"))
    flows.start(ask(2.0, []))
    assert [each.id for each in flows.take()] == [1, 0, 2]


def test_an_answer_to_an_unknown_id_and_a_second_answer_change_nothing() -> None:
    flows, answers = Flows(), list[Any]()
    flows.start(ask(1.0, answers))
    flows.resume(Answered(7, "no"))
    assert answers == []
    for answer in ("first", "second"):
        flows.resume(Answered(1, answer))
    assert answers == ["first"]


def test_an_error_is_raised_where_the_flow_waits() -> None:
    flows, answers, results = Flows(), list[Any](), list[Any]()
    flows.start(follow(ask(1.0, answers), results))
    error = ConflictError("changed")
    flows.resume(Answered(1, error=error))
    assert (answers, results) == (["changed"], [error])


def test_an_error_that_no_flow_catches_ends_the_machine() -> None:
    flows, ended = Flows(), list[str]()
    flows.start(ask(1.0, []), lambda: ended.append("ended"))
    with pytest.raises(ConflictError, match="changed"):
        flows.resume(Answered(1, error=ConflictError("changed")))
    assert ended == []


def test_an_error_of_the_program_itself_is_not_treated_as_one_of_the_cluster() -> None:
    def wrong() -> Flow[None]:
        yield Sleep(1.0)
        raise KeyError("x")

    flows, results = Flows(), list[Any]()
    flows.start(follow(wrong(), results))
    with pytest.raises(KeyError):
        flows.resume(Answered(1))
    assert results == []


def together(*flows: Flow[Any]) -> Flow[list[Any]]:
    results: list[Any] = yield Together(flows)
    return results


def test_flows_that_run_together_yield_at_once_and_their_results_keep_their_order() -> None:
    flows, answers, results = Flows(), list[Any](), list[Any]()
    flows.start(follow(together(*(ask(float(each), answers) for each in (1, 2, 3))), results))
    assert taken_effects(flows) == [(1, 1.0), (2, 2.0), (3, 3.0)]
    for number, answer in ((2, "b"), (3, "c")):
        flows.resume(Answered(number, answer))
    assert (answers, results) == (["b", "c"], [])
    flows.resume(Answered(1, "a"))
    assert results == [["a", "b", "c"]]


def test_no_flows_together_and_flows_without_effects_end_at_once() -> None:
    def nothing(result: int) -> Flow[int]:
        yield from ()
        return result

    flows, results = Flows(), list[Any]()
    flows.start(follow(together(), results))
    flows.start(follow(together(nothing(1), nothing(2)), results))
    assert (results, flows.take()) == ([[], [1, 2]], [])


def test_the_first_error_of_flows_that_run_together_is_raised_when_all_have_ended() -> None:
    flows, answers, results = Flows(), list[Any](), list[Any]()
    flows.start(follow(together(*(ask(float(each), answers) for each in (1, 2, 3))), results))
    errors = {3: ConflictError("first"), 1: ConflictError("second")}
    for number, error in errors.items():
        flows.resume(Answered(number, error=error))
    assert results == [], "the second still waits for its answer"
    flows.resume(Answered(2, "fine"))
    assert results == [errors[3]]
    assert answers == ["first", "second", "fine"]


def test_flows_can_run_together_inside_flows_that_run_together() -> None:
    flows, results = Flows(), list[Any]()
    inner = (together(ask(1.0, []), ask(2.0, [])), ask(3.0, []))
    flows.start(follow(together(*inner), results))
    for number in (1, 3, 2):
        flows.resume(Answered(number, number))
    assert results == [[[1, 2], 3]]


def locked(flows: Flows, lock: Lock, name: str, log: list[str]) -> Flow[None]:
    """Yield one effect while a lock is held."""
    yield lock
    log.append(f"{name} begins")
    try:
        yield Sleep(1.0)
    finally:
        log.append(f"{name} ends")
        flows.release(lock)


def test_a_lock_is_held_by_one_flow_at_a_time_in_order_of_arrival() -> None:
    flows, lock, log = Flows(), Lock(), list[str]()
    for name in "abc":
        flows.start(locked(flows, lock, name, log))
    assert (log, taken_effects(flows)) == (["a begins"], [(1, 1.0)])
    for number in (1, 2, 3):
        flows.resume(Answered(number))
    assert log == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]
    assert not lock.held
    flows.start(locked(flows, lock, "d", log))
    assert log[-1] == "d begins", "it is free again"


def test_a_lock_is_released_when_its_flow_fails() -> None:
    flows, lock, log, results = Flows(), Lock(), list[str](), list[Any]()
    flows.start(follow(locked(flows, lock, "a", log), results))
    flows.start(locked(flows, lock, "b", log))
    flows.resume(Answered(1, error=ConflictError("changed")))
    assert [type(each) for each in results] == [ConflictError]
    assert log == ["a begins", "a ends", "b begins"]
    flows.resume(Answered(2))
    assert not lock.held


def test_a_flow_that_arrives_while_a_lock_is_passed_on_waits_in_order() -> None:
    flows, lock, log = Flows(), Lock(), list[str]()

    def eager() -> Flow[None]:
        yield from locked(flows, lock, "a", log)
        flows.start(locked(flows, lock, "late", log))

    flows.start(eager())
    flows.start(locked(flows, lock, "b", log))
    flows.resume(Answered(1))
    assert log == ["a begins", "a ends", "b begins"]
    flows.resume(Answered(2))
    assert log[-1] == "late begins"


def test_the_same_answers_give_the_same_effects() -> None:
    def play() -> list[Effect]:
        flows, lock = Flows(), Lock()
        effects: list[Effect] = []
        for name in "ab":
            flows.start(locked(flows, lock, name, []))
            flows.start(follow(together(ask(1.0, []), ask(2.0, [])), []))
        while step := flows.take():
            effects += step
            for each in reversed(step):
                flows.resume(Answered(each.id))
        return effects

    assert play() == play()
    assert [each.id for each in play()] == list(range(1, 7))
