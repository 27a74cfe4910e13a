"""The digest of a model's work: the same for the same structure, whatever the weights."""

from pathlib import Path

from fairlead.zoo.graph import NetGraph, Weight
from tests.analyze.models import graph, ints, node, profile, value


def reshaped(*to: int, fill: float = 0.0, op: str = "Relu", wide: int = 4) -> NetGraph:
    weights = [Weight("w", (4, wide), "fp32", (fill,)), ints("to", *to)]
    return graph(
        [node("MatMul", "x w", "m"), node("Reshape", "m to", "r"), node(op, "r", "y")],
        [value("x", "n", 4)],
        weights,
    )


def test_the_same_work_has_the_same_digest(tmp_path: Path) -> None:
    one = profile(tmp_path, reshaped(1, -1), n=(2,)).digest
    assert profile(tmp_path, reshaped(1, -1, fill=0.5), n=(2,)).digest == one
    assert len(one) == 40
    assert set(one) <= set("0123456789abcdef")


def test_other_work_has_another_digest(tmp_path: Path) -> None:
    digests = {
        profile(tmp_path, made, n=(batch,)).digest
        for made, batch in (
            (reshaped(1, -1), 2),
            (reshaped(1, -1), 3),
            (reshaped(2, -1), 2),
            (reshaped(1, -1, op="Abs"), 2),
            (reshaped(1, -1, wide=6), 2),
        )
    }
    assert len(digests) == 5
