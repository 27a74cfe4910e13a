"""The extender API on the wire: names as Go spells them, and errors for invalid requests."""

import json

import pytest

from fairlead.errors import UserError
from fairlead.serve.extender import wire
from fairlead.serve.extender.node_evaluator import NodeVerdicts

POD = {"metadata": {"name": "p", "uid": "u", "unknown": [1]}, "spec": {"containers": []}}


def body(**fields: object) -> bytes:
    return json.dumps({"Pod": POD, "Nodes": None, **fields}).encode()


def test_a_request_is_decoded() -> None:
    args = wire.decode(body(NodeNames=["a", "b"]))
    assert (args.pod.metadata.uid, args.names) == ("u", ("a", "b"))
    assert wire.decode(body(NodeNames=[])).names == ()


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", "the body is not an ExtenderArgs"),
        (b"\xff\x00garbage", "the body is not an ExtenderArgs"),
        (b"[]", "the body is not an ExtenderArgs"),
        (b'{"NodeNames": []}', "`Pod`"),
        (b'{"Pod": null, "NodeNames": []}', "$.Pod"),
        (b'{"Pod": {"metadata": {"name": NaN}}, "NodeNames": []}', "the body is not an ExtenderArgs"),
        (b'{"Pod": ' + b'{"a":' * 50_000, "the body is not an ExtenderArgs"),
        (body(NodeNames="a"), "$.NodeNames"),
        (body(NodeNames=[1]), "$.NodeNames"),
        (body(NodeNames=["n"] * 65_537), "65537 NodeNames are more than the 65536 of one request"),
        (body(), "no NodeNames were sent: set nodeCacheCapable: true"),
        (body(Nodes={"items": []}), "whole nodes were sent: set nodeCacheCapable: true"),
    ],
)
def test_an_invalid_request_is_an_error(sent: bytes, says: str) -> None:
    with pytest.raises(UserError) as caught:
        wire.decode(sent)
    assert says in str(caught.value)


def test_answers_are_spelt_as_kube_scheduler_reads_them() -> None:
    verdict = NodeVerdicts(["a"], {"b": "full"}, {"c": "none"})
    assert json.loads(wire.encode_verdict(verdict)) == {
        "NodeNames": ["a"],
        "FailedNodes": {"b": "full"},
        "FailedAndUnresolvableNodes": {"c": "none"},
        "Error": "",
    }
    assert json.loads(wire.encode_scores(("a", "b"), (10, 0))) == [
        {"Host": "a", "Score": 10},
        {"Host": "b", "Score": 0},
    ]
