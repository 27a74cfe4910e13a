"""Plans are carried out in order, together or not at all, and what is lost on the way is settled."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fairlead.errors import ClusterAwayError, ClusterError, ConflictError
from fairlead.placement import Placement, Share
from fairlead.request import Request
from fairlead.serve.scheduler.act import Hands
from fairlead.serve.scheduler.writes import Plan
from fairlead.units import Bytes
from tests.serve.scheduler.objects import GIB, pod

Answer = Callable[[str, str], ClusterError | dict[str, Any] | None]


class Wire:
    """An API server that says yes, but for what the test lets it say."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[tuple[str, str]] = []
        self._answer = answer

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = ""
    ) -> bytes:
        short = path.rpartition("/namespaces/default/")[2]
        self.asked.append((method, short))
        await asyncio.sleep(0)
        said = self._answer(method, short)
        if isinstance(said, ClusterError):
            raise said
        given = json.loads(body or b"{}").get("metadata", {})
        return json.dumps(said or {"metadata": {"name": "x", **given, "resourceVersion": "9"}}).encode()


def plan(name: str, *, own: bool = True) -> Plan:
    request = Request(name, uid=f"uid-{name}")
    return Plan(pod(name, mib=1024), Placement(request, "n", (Share("gpu-0", Bytes(GIB)),)), own=own)


def carried_out(answer: Answer, *plans: Plan) -> tuple[dict[str, str], list[tuple[str, str]]]:
    wire = Wire(answer)
    failed = asyncio.run(Hands(wire, lambda: 3).carry_out(plans))
    return failed, wire.asked


def test_a_share_is_pointed_to_made_allocated_and_bound() -> None:
    failed, asked = carried_out(lambda *_: None, plan("a"))
    assert failed == {}
    assert asked == [
        ("PATCH", "pods/a/status"),
        ("POST", "resourceclaims"),
        ("PATCH", "resourceclaims/a-fairlead-uid-a/status"),
        ("POST", "pods/a/binding"),
    ]


def test_a_gang_is_booked_whole_before_the_first_is_bound() -> None:
    _, asked = carried_out(lambda *_: None, plan("a"), plan("b"))
    binds = [at for at, (_, path) in enumerate(asked) if path.endswith("/binding")]
    assert binds == [6, 7]


def test_where_one_of_a_gang_cannot_be_booked_all_is_taken_back_and_none_is_bound() -> None:
    def answer(method: str, path: str) -> ClusterError | None:
        return ConflictError("not as you thought") if path == "pods/b/status" else None

    failed, asked = carried_out(answer, plan("a"), plan("b"))
    assert set(failed) == {"uid-a", "uid-b"}
    assert ("DELETE", "resourceclaims/a-fairlead-uid-a") in asked
    assert not [path for _, path in asked if path.endswith("/binding")]


def test_a_pod_that_another_bound_gives_back_what_was_booked_for_it() -> None:
    def answer(method: str, path: str) -> ClusterError | None:
        return ConflictError("already assigned") if path.endswith("/binding") else None

    failed, asked = carried_out(answer, plan("a"))
    assert failed == {"uid-a": "already assigned"}
    assert asked[-2:] == [
        ("PATCH", "resourceclaims/a-fairlead-uid-a"),
        ("DELETE", "resourceclaims/a-fairlead-uid-a"),
    ]


def lost() -> ClusterAwayError:
    error = ClusterAwayError("the connection broke")
    error.maybe_done = True
    return error


def test_a_binding_whose_answer_was_lost_counts_where_the_pod_says_so() -> None:
    def answer(method: str, path: str) -> ClusterError | dict[str, Any] | None:
        if path.endswith("/binding"):
            return lost()
        bound = {"metadata": {"uid": "uid-a", "resourceVersion": "11"}, "spec": {"nodeName": "n"}}
        return bound if path == "pods/a/status" else None

    failed, asked = carried_out(answer, plan("a", own=False))
    assert failed == {}
    assert asked == [("POST", "pods/a/binding"), ("PATCH", "pods/a/status")]


def test_a_binding_whose_answer_was_lost_is_made_impossible_before_its_device_is_given_to_others() -> None:
    def answer(method: str, path: str) -> ClusterError | dict[str, Any] | None:
        if path.endswith("/binding"):
            return lost()
        return {"metadata": {"uid": "uid-a", "resourceVersion": "11"}} if path == "pods/a/status" else None

    failed, asked = carried_out(answer, plan("a", own=False))
    assert set(failed) == {"uid-a"}
    assert asked[1] == ("PATCH", "pods/a/status")
