"""Open dimensions: none is guessed, and the error names the unbound one and how to bind it."""

from pathlib import Path

import pytest

from fairlead.analyze import analyze, parse_shapes
from fairlead.errors import AnalysisError
from tests.analyze.models import Open, graph, node, profile, saved, value, weight


def open_model(folder: Path, *dims: Open) -> str:
    """Write a model that adds up its inputs."""
    inputs = [value(name, *shape) for name, shape in zip("xz", dims, strict=False)]
    names = " ".join(input_.name for input_ in inputs)
    return saved(folder, graph([node("Sum", names, "y")], inputs))


@pytest.mark.parametrize(
    ("dims", "message", "hint"),
    [
        (("batch", 3), "input 'x' leaves open: batch (batch x 3)", "bind it: --shape batch=1"),
        (
            ("n", 3, "h", "w"),
            "input 'x' leaves open: n, h, w (n x 3 x h x w)",
            "bind it: --shape n=1 --shape h=N --shape w=N",
        ),
        (
            ("?", 3, "?"),
            "input 'x' leaves a dimension open that has no name (? x 3 x ?)",
            "bind it: --shape x=1x3xN",
        ),
        (("n", "?"), "input 'x' leaves open: n (n x ?)", "bind it: --shape x=1xN"),
    ],
)
def test_an_open_dimension_is_refused_by_name(tmp_path: Path, dims: Open, message: str, hint: str) -> None:
    path = open_model(tmp_path, dims)
    with pytest.raises(AnalysisError) as caught:
        analyze(path)
    assert str(caught.value) == f"{path}: {message}"
    assert caught.value.hint == hint


def test_more_open_inputs_are_counted(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"\(n x 3\), and 1 more input does"):
        analyze(open_model(tmp_path, ("n", 3), ("m", 3)))


@pytest.mark.parametrize(
    ("dims", "shapes", "bound"),
    [
        (("batch", 3), ["batch=4"], (4, 3)),
        (("batch", 3), ["x=4x3"], (4, 3)),
        (("batch", 3), ["x=4,3"], (4, 3)),
        (("batch", 3), ["batch=4", "x=4x3"], (4, 3)),
        (("?", 3, "?"), ["x=1x3x9"], (1, 3, 9)),
        ((2, 3), ["x=2x3"], (2, 3)),
        (("a=b", 3), ["a=b=7"], (7, 3)),
        (("x", 3), ["x=5"], (5, 3)),
        (("past", 3), ["past=0"], (0, 3)),
    ],
)
def test_bound_dimensions_apply(
    tmp_path: Path, dims: Open, shapes: list[str], bound: tuple[int, ...]
) -> None:
    result = analyze(open_model(tmp_path, dims), parse_shapes(shapes))
    assert result.inputs[0].dims == result.outputs[0].dims == bound
    assert result.batch == bound[0]


@pytest.mark.parametrize(
    ("dims", "shapes", "message"),
    [
        ((1, 3), ["x=2x3"], "input 'x' is fixed at 1 x 3: it cannot be 2 x 3"),
        (("n", 3), ["x=2x4"], "input 'x' has the shape n x 3: it cannot be 2 x 4"),
        (("n", 3), ["x=2x3x1"], "input 'x' has the shape n x 3: it cannot be 2 x 3 x 1"),
        (("n", 3), ["n=2", "x=4x3"], "dimension 'n' cannot be 2 and 4 at once"),
        (("n", 3), ["n=2x2"], "'n' does not have that many dimensions"),
        (("batch", 3), ["bach=2"], "no input or dimension 'bach'"),
        (("batch", 3), ["x"], "'x' is not a shape"),
        (("batch", 3), ["x=-1x3"], "'x=-1x3' is not a shape"),
        (("batch", 3), ["x=1x"], "'x=1x' is not a shape"),
        (("batch", 3), ["batch=9999999999999999999"], "larger than any machine"),
        (("batch", 3), ["x=99999999x99999999"], "larger than any machine"),
    ],
)
def test_an_impossible_shape_is_refused(tmp_path: Path, dims: Open, shapes: list[str], message: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        analyze(open_model(tmp_path, dims), parse_shapes(shapes))
    assert message in str(caught.value)
    assert caught.value.hint


def test_a_typing_mistake_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError) as caught:
        analyze(open_model(tmp_path, ("batch", 3)), {"bach": (1,)})
    assert caught.value.hint == "did you mean batch?"


def test_an_inner_dimension_can_be_bound(tmp_path: Path) -> None:
    made = graph(
        [node("my.Boxes", "x", "b"), node("MatMul", "b w", "y")],
        [value("x", 1, 4)],
        [weight("w", 4, 8)],
        values=[value("b", "boxes", 4)],
    )
    assert profile(tmp_path, made).macs == 4 * 8
    assert profile(tmp_path, made, boxes=(100,)).macs == 100 * 4 * 8
