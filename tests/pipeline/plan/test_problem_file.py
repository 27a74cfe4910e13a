"""Problems in JSON: every fault is reported with the path of its field, and what to write."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import PipelineError
from fairlead.pipeline.plan.problem_file import parse_problem
from tests.pipeline.plan.problems import link, problem, stage

GOOD = problem([stage("s", 10, 5, a=1.0, b=2), stage("t", a=0)], [link("a", "b")], 3.5)


def changed(path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of the good problem with one field changed."""
    document = json.loads(json.dumps(GOOD))
    entry = document
    for key in path[:-1]:
        entry = entry[key]
    entry[path[-1]] = value
    return document


def fault(document: Any) -> str:
    """Return the error and the hint of a problem."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(PipelineError) as error:
        parse_problem(text, "p.json")
    return f"{error.value} | {error.value.hint}"


def test_a_problem_is_read() -> None:
    parsed = parse_problem(json.dumps(GOOD).encode(), "p.json")
    assert (parsed.source, parsed.max_latency_s) == ("a", 3.5)
    assert [node.name for node in parsed.nodes] == ["a", "b", "c"]
    (only,) = parsed.links
    assert (only.source, only.target, only.bytes_per_s, only.delay_s) == ("a", "b", 1000.0, 0.0)
    first = parsed.stages[0]
    assert (first.name, first.input_bytes, first.memory_bytes) == ("s", 10, 5)
    assert first.seconds == {"a": 1.0, "b": 2}
    assert parse_problem(json.dumps(changed(("max_latency_s",), None)).encode(), "p").max_latency_s is None
    without = {key: value for key, value in GOOD.items() if key != "max_latency_s"}
    assert parse_problem(json.dumps(without).encode(), "p").max_latency_s is None


NUMBERS = (
    (("nodes", 1, "memory_bytes"), "nodes[1].memory_bytes"),
    (("links", 0, "bytes_per_s"), "links[0].bytes_per_s"),
    (("links", 0, "delay_s"), "links[0].delay_s"),
    (("stages", 0, "memory_bytes"), "stages[0].memory_bytes"),
    (("stages", 1, "input_bytes"), "stages[1].input_bytes"),
    (("stages", 0, "seconds", "b"), "stages[0].seconds.b"),
    (("max_latency_s",), "max_latency_s"),
)


@pytest.mark.parametrize(("path", "shown"), NUMBERS, ids=lambda each: each if isinstance(each, str) else "")
@pytest.mark.parametrize("value", [-1, -1e-9, float("nan"), float("inf"), 1e31, 10**400, True, "1", [], {}])
def test_a_number_must_be_one(path: tuple[Any, ...], shown: str, value: Any) -> None:
    assert fault(changed(path, value)).startswith(f"p.json: {shown}: ")


@pytest.mark.parametrize(("path", "shown"), NUMBERS, ids=lambda each: each if isinstance(each, str) else "")
def test_zero_is_allowed_but_for_a_rate(path: tuple[Any, ...], shown: str) -> None:
    document = changed(path, 0)
    if shown.endswith("bytes_per_s"):
        assert fault(document).startswith("p.json: links[0].bytes_per_s: 0 is not a rate | write the rate")
    else:
        parse_problem(json.dumps(document).encode(), "p.json")


FAULTS: tuple[tuple[Any, str], ...] = (
    ([], "p.json: a list is not an object | write an object with source, nodes, links, stages"),
    (changed(("nodes",), {}), "p.json: nodes: an object is not a list"),
    (changed(("nodes",), []), "p.json: nodes: there is no node"),
    (changed(("stages",), []), "p.json: stages: there is no stage"),
    (changed(("nodes", 2), 7), "p.json: nodes[2]: 7 is not an object"),
    (
        changed(("nodes", 0, "memory"), 7),
        'p.json: nodes[0]: there is no field "memory" | did you mean memory_b',
    ),
    (changed(("latency",), 7), 'p.json: there is no field "latency" | did you mean max_latency_s'),
    (changed(("nodes", 0), {"name": "a"}), "p.json: nodes[0]: memory_bytes is missing"),
    ({"source": "a"}, "p.json: nodes is missing"),
    (changed(("nodes", 1, "name"), "a"), 'p.json: nodes[1]: a node "a" exists already'),
    (changed(("nodes", 1, "name"), "x\n"), 'p.json: nodes[1].name: "x\\n" is not a name'),
    (changed(("nodes", 1, "name"), " "), 'p.json: nodes[1].name: " " is not a name'),
    (changed(("nodes", 1, "name"), 4), "p.json: nodes[1].name: 4 is not a name"),
    (changed(("stages", 1, "name"), "s"), 'p.json: stages[1]: a stage "s" exists already'),
    (changed(("links",), [link("a", "b")] * 2), 'p.json: links[1]: a link "a->b" exists already'),
    (changed(("source",), "x"), 'p.json: source: "x" is not a node | nodes: a, b, c'),
    (changed(("source",), None), "p.json: source: null is not a node"),
    (changed(("links", 0, "to"), "z"), 'p.json: links[0].to: "z" is not a node'),
    (changed(("stages", 0, "seconds"), {"z": 1}), 'p.json: stages[0].seconds: "z" is not a node'),
    (
        changed(("stages", 0, "seconds"), 1),
        "p.json: stages[0].seconds: 1 is not an object of seconds by node",
    ),
    (b"{", "p.json: not JSON: "),
    (b"\xff\xfe\xfd", "p.json: not JSON: "),
    (b"", "p.json: not JSON: "),
    (b"[" * 100_000, "p.json: not a problem: nested too deeply"),
    (
        json.dumps(GOOD).replace('"b": 2', '"a": 2').encode(),
        'p.json: stages[0].seconds: "a" is there twice | keep one of them',
    ),
    (b'{"source": "a", "source": "b"}', 'p.json: "source" is there twice'),
)


@pytest.mark.parametrize(("document", "expected"), FAULTS, ids=[each[1][8:48] for each in FAULTS])
def test_a_fault_is_named_with_its_field(document: Any, expected: str) -> None:
    assert fault(document).startswith(expected)


def test_long_values_are_shortened() -> None:
    assert f'"{"x" * 38}… is not a node' in fault(changed(("source",), "x" * 1000))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from((*GOOD, "name", "a")), each),
    max_leaves=8,
)
PATHS = (
    *(path for path, _ in NUMBERS),
    *(("source",), ("nodes",), ("links",), ("stages",), ("nodes", 0), ("links", 0), ("stages", 0)),
    *(("nodes", 0, "name"), ("links", 0, "from"), ("stages", 0, "seconds"), ("stages", 1, "name")),
)


@settings(max_examples=60)
@given(st.sampled_from(PATHS), VALUES)
def test_any_value_is_read_or_refused_with_a_hint(path: tuple[Any, ...], value: Any) -> None:
    _read_or_refused(json.dumps(changed(path, value)).encode())


@given(st.binary(max_size=40) | VALUES.map(lambda each: json.dumps(each).encode()))
def test_any_bytes_are_read_or_refused_with_a_hint(data: bytes) -> None:
    _read_or_refused(data)


def _read_or_refused(data: bytes) -> None:
    refused: PipelineError | None = None
    try:
        parsed = parse_problem(data, "p.json")
        assert parsed.source in [node.name for node in parsed.nodes]
        assert parsed.stages
    except PipelineError as error:
        refused = error
    assert refused is None or (str(refused).startswith("p.json: ") and refused.hint)
