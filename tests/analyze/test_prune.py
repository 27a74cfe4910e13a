"""Steps that no runtime executes are not counted: constants, dead code and no-ops."""

from pathlib import Path

import pytest

from fairlead.analyze import analyze
from fairlead.errors import AnalysisError
from fairlead.workload import Tensor
from fairlead.zoo.graph import NetNode
from tests.analyze.models import graph, ints, node, ops, profile, saved, value, weight


def test_dead_code_goes_with_its_weights(tmp_path: Path) -> None:
    made = graph(
        [node("MatMul", "x w", "y"), node("MatMul", "x v", "d"), node("Relu", "d", "dead")],
        [value("x", 2, 4)],
        [weight("w", 4, 4), weight("v", 4, 400), weight("never", 1000)],
        ["y"],
    )
    result = profile(tmp_path, made)
    assert (ops(result), result.macs, result.params) == (["MatMul"], 32, 16)


def test_constants_are_folded(tmp_path: Path) -> None:
    made = graph(
        [
            node("Transpose", "w", "t"),
            node("Cast", "t", "c", to=1),
            node("MatMul", "x c", "a"),
            node("Unsqueeze", "b axis", "u"),
            node("Add", "a u", "y"),
        ],
        [value("x", 2, 4)],
        [weight("w", 6, 4, dtype="fp16"), weight("b", 6), ints("axis", 0)],
    )
    result = profile(tmp_path, made)
    assert ops(result) == ["MatMul", "Add"]
    assert [(record.params, record.weight_bytes) for record in result.operators] == [(24, 48), (6, 24)]


def test_no_ops_are_removed_and_outputs_keep_their_names(tmp_path: Path) -> None:
    made = graph(
        [
            node("Identity", "x", "a"),
            node("Relu", "a", "b"),
            node("Dropout", "b", "c mask"),
            node("Cast", "c", "d", to=1),
            node("Identity", "d", "y"),
        ],
        [value("x", 2, 4)],
    )
    result = profile(tmp_path, made)
    assert ops(result) == ["Relu"]
    assert result.outputs == (Tensor("y", (2, 4), "fp32"),)


def test_random_numbers_are_not_folded(tmp_path: Path) -> None:
    made = graph(
        [node("RandomNormalLike", "w", "r"), node("Add", "x r", "y")], [value("x", 3)], [weight("w", 3)]
    )
    assert ops(profile(tmp_path, made)) == ["RandomNormalLike", "Add"]


def test_nodes_in_any_order_are_sorted(tmp_path: Path) -> None:
    nodes = [node("Relu", "b", "y"), node("Relu", "x", "a"), node("Abs", "a", "b")]
    result = profile(tmp_path, graph(nodes, [value("x", 2)], outputs=["y"]))
    assert ops(result) == ["Relu", "Abs", "Relu"]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Add", "x b", "a"), node("Relu", "a", "b")], "the graph has a cycle at 'a'"),
        ([node("Relu", "b", "b")], "the graph has a cycle at 'b'"),
        ([node("Relu", "x", "b"), node("Abs", "x", "b")], "value 'b' is produced twice"),
        ([node("Relu", "x", "x")], "the graph has a cycle at 'x'"),
        ([node("Constant", "", "x", value_int=1)], "value 'x' is produced twice"),
        ([node("Relu", "nowhere", "b")], "value 'nowhere' is read but never produced"),
    ],
)
def test_an_invalid_graph_is_refused(tmp_path: Path, nodes: list[NetNode], message: str) -> None:
    path = saved(tmp_path, graph(nodes, [value("x", 2)]))
    with pytest.raises(AnalysisError, match=message):
        analyze(path)
