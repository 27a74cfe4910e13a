"""Branches, loops and functions: bodies are inlined; work that depends on the data is a lower bound."""

from pathlib import Path

import pytest

from fairlead.analyze import analyze
from fairlead.errors import AnalysisError
from fairlead.zoo.graph import NetGraph, Weight
from fairlead.zoo.onnxfile import len_field, string_field, varint_field
from tests.analyze.models import graph, ints, node, ops, profile, saved, value, weight

PATH = value("x", 2, 4)


def body(name: str, wide: int, op: str = "MatMul") -> NetGraph:
    """Make a branch that multiplies by a matrix of its own, and reads x from the outer scope."""
    made = graph([node(op, "x v", "out")], [], [weight("v", 4, wide)])
    return NetGraph(name, (), made.outputs, made.nodes, made.weights)


def branches(**sides: NetGraph) -> NetGraph:
    return graph([node("If", "test", "y", **sides)], [PATH, value("test", dtype="bool")])


def test_the_heavier_branch_is_counted_and_both_are_loaded(tmp_path: Path) -> None:
    result = profile(tmp_path, branches(then_branch=body("a", 3), else_branch=body("b", 10)))
    assert ops(result) == ["MatMul", "If"]
    assert (result.macs, result.params, result.exact) == (2 * 4 * 10, 40 + 12, False)
    assert result.outputs[0].dims == (2, None)
    assert any("its heavier branch is counted" in note for note in result.notes)


@pytest.mark.parametrize(("test", "wide"), [(True, 3), (False, 10)])
def test_a_branch_with_a_constant_condition_is_exact(tmp_path: Path, test: bool, wide: int) -> None:
    made = graph(
        [node("If", "test", "y", then_branch=body("a", 3), else_branch=body("b", 10))],
        [PATH],
        [Weight("test", (), "bool", (test,))],
    )
    result = profile(tmp_path, made)
    assert (result.macs, result.exact, result.outputs[0].dims) == (2 * 4 * wide, True, (2, wide))
    assert result.notes == ()


def test_the_shape_of_an_input_can_decide_a_branch(tmp_path: Path) -> None:
    made = graph(
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n"),
            node("Equal", "n one", "test"),
            node("If", "test", "y", then_branch=body("a", 3), else_branch=body("b", 10)),
        ],
        [value("x", "n", 4)],
        [ints("zero", 0, dims=()), ints("one", 1, dims=())],
    )
    assert profile(tmp_path, made, n=(1,)).macs == 4 * 3
    assert profile(tmp_path, made, n=(2,)).macs == 2 * 4 * 10


def test_a_loop_is_counted_once(tmp_path: Path) -> None:
    inside = NetGraph(
        "body",
        (value("i", dtype="int64"), value("go", dtype="bool"), value("s", 4, 4)),
        (value("go2"), value("s2"), value("each")),
        (
            node("Identity", "go", "go2"),
            node("MatMul", "s w", "s2"),
            node("ReduceSum", "s2", "each", keepdims=0),
        ),
        (weight("w", 4, 4),),
    )
    made = graph(
        [node("Loop", "times _ state", "y all", body=inside)],
        [value("times", dtype="int64"), value("state", 4, 4)],
        outputs=["y", "all"],
    )
    result = profile(tmp_path, made)
    assert (result.macs, result.params) == (64, 16)
    assert [tensor.dims for tensor in result.outputs] == [(4, 4), (None,)]
    assert not any(record.exact for record in result.operators if record.op != "Identity")


def test_a_scan_knows_its_length(tmp_path: Path) -> None:
    inside = NetGraph(
        "body",
        (value("s", 3), value("e", 5)),
        (value("s2"), value("o")),
        (node("MatMul", "e w", "o"), node("Add", "s o", "s2")),
        (weight("w", 5, 3),),
    )
    made = graph(
        [node("Scan", "start seq", "y all", body=inside, num_scan_inputs=1)],
        [value("start", 3), value("seq", 7, 5)],
        outputs=["y", "all"],
    )
    result = profile(tmp_path, made)
    assert (result.macs, [tensor.dims for tensor in result.outputs]) == (15, [(3,), (7, 3)])


def nested(depth: int) -> NetGraph:
    """Make nested branches."""
    inner = body("leaf", 3)
    for level in range(depth):
        branch = node("If", "test", "out", then_branch=inner, else_branch=inner)
        inner = NetGraph(f"level{level}", (), (value("out"),), (branch,))
    return inner


def test_nesting_of_bodies_is_bounded(tmp_path: Path) -> None:
    sides = nested(4)
    assert profile(tmp_path, branches(then_branch=sides, else_branch=sides)).macs == 24
    deep = nested(1)
    for _ in range(20):
        deep = NetGraph("d", (), (value("out"),), (node("If", "test", "out", then_branch=deep),))
    with pytest.raises(AnalysisError, match="nested graphs"):
        profile(tmp_path, branches(then_branch=deep, else_branch=deep))


def function(name: str, inputs: str, outputs: str, *nodes: bytes) -> bytes:
    """Return a function of the domain `mine`, as the model's field."""
    parts = [string_field(1, name), string_field(10, "mine")]
    parts += [string_field(4, each) for each in inputs.split()] + [
        string_field(5, each) for each in outputs.split()
    ]
    return len_field(25, b"".join(parts) + b"".join(len_field(7, each) for each in nodes))


def raw(op: str, inputs: str, outputs: str, domain: str = "", *attributes: bytes) -> bytes:
    """Return a node as bytes."""
    parts = [string_field(1, each) for each in inputs.split()] + [
        string_field(2, each) for each in outputs.split()
    ]
    parts += [
        string_field(4, op),
        string_field(7, domain),
        *(len_field(5, attribute) for attribute in attributes),
    ]
    return b"".join(parts)


def with_functions(folder: Path, made: NetGraph, *functions: bytes) -> str:
    """Write a model and append functions to it."""
    path = Path(saved(folder, made))
    path.write_bytes(path.read_bytes() + b"".join(functions))
    return str(path)


def test_a_function_is_inlined_with_the_attributes_of_its_caller(tmp_path: Path) -> None:
    transposed = string_field(1, "transB") + string_field(21, "turn") + varint_field(20, 2)
    product = function("Linear", "a b", "c", raw("Gemm", "a b", "t", "", transposed), raw("Relu", "t", "c"))
    made = graph(
        [node("mine.Linear", "x w", "m", turn=1), node("mine.Linear", "m v", "y", turn=0)],
        [PATH],
        [weight("w", 8, 4), weight("v", 8, 3)],
    )
    result = analyze(with_functions(tmp_path, made, product))
    assert ops(result) == ["Gemm", "Relu", "Gemm", "Relu"]
    assert (result.macs, result.outputs[0].dims) == (2 * 4 * 8 + 2 * 8 * 3, (2, 3))


def test_recursive_functions_are_refused(tmp_path: Path) -> None:
    again = function("Linear", "a", "c", raw("Linear", "a", "c", "mine"))
    made = graph([node("mine.Linear", "x", "y")], [PATH])
    with pytest.raises(AnalysisError, match="nested bodies or calls"):
        analyze(with_functions(tmp_path, made, again))


def test_functions_that_grow_exponentially_are_refused_in_time(tmp_path: Path) -> None:
    doubling = [
        function(f"F{at}", "a", "d", *(raw(f"F{at + 1}", "a", f"{name}", "mine") for name in "bcdefg"))
        for at in range(15)
    ]
    leaf = function("F15", "a", "d", raw("Relu", "a", "d"))
    made = graph([node("mine.F0", "x", "y")], [PATH])
    with pytest.raises(AnalysisError, match="once functions are inlined"):
        analyze(with_functions(tmp_path, made, *doubling, leaf))
