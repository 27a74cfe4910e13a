"""TFLite files: operators by either number, quantised types, bodies by number, and compiled models."""

from pathlib import Path

import pytest

from fairlead.analyze import analyze
from fairlead.errors import AnalysisError
from fairlead.workload import Profile, Tensor
from tests.analyze.models import by_op, grouped, ops
from tests.tflites import Byte, Op, Sub, T, model, zeros


def profile(folder: Path, *graphs: Sub, **shapes: tuple[int, ...]) -> Profile:
    path = folder / "tiny.tflite"
    path.write_bytes(model(*graphs))
    return analyze(str(path), shapes)


def one(
    op: str, dims: list[tuple[int, ...]], out: tuple[int, ...], dtype: str = "fp32", **options: int
) -> Sub:
    """Make a subgraph of one operator: an image, constants, and the output."""
    width = 4 if dtype == "fp32" else 1
    names = [f"t{at}" for at in range(len(dims))]
    tensors = [T(names[0], dims[0], dtype)]
    for name, shape in zip(names[1:], dims[1:], strict=True):
        size = width
        for dim in shape:
            size *= dim
        tensors.append(T(name, shape, dtype, zeros(size)))
    fields = {int(key[1:]): Byte(number) for key, number in options.items()}
    return Sub([*tensors, T("y", out, dtype)], [Op(op, " ".join(names), "y", fields)], "t0", "y")


ROWS: list[tuple[Sub, str, int, int]] = [
    (one("CONV_2D", [(1, 8, 8, 3), (5, 3, 3, 3), (5,)], (1, 6, 6, 5)), "conv", 36 * 5 * 27, 135 + 5),
    (one("DEPTHWISE_CONV_2D", [(1, 8, 8, 3), (1, 3, 3, 6)], (1, 8, 8, 6)), "depthwise", 64 * 6 * 9, 54),
    (one("FULLY_CONNECTED", [(2, 7), (9, 7), (9,)], (2, 9)), "matmul", 2 * 9 * 7, 63 + 9),
    (one("CONV_3D", [(1, 4, 4, 4, 2), (2, 2, 2, 2, 3)], (1, 3, 3, 3, 3)), "conv", 27 * 3 * 16, 48),
    (one("BATCH_MATMUL", [(2, 3, 4), (2, 4, 5)], (2, 3, 5)), "matmul", 2 * 3 * 4 * 5, 40),
    (one("BATCH_MATMUL", [(2, 4, 3), (2, 4, 5)], (2, 3, 5), f0=1, f1=0), "matmul", 2 * 3 * 4 * 5, 40),
    (one("UNIDIRECTIONAL_SEQUENCE_RNN", [(1, 6, 3), (4, 3), (4, 4)], (1, 6, 4)), "recurrent", 6 * 28, 28),
    (one("GELU", [(2, 7)], (2, 7)), "activation", 0, 0),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].ops[0].name)
def test_work_and_parameters(tmp_path: Path, row: tuple[Sub, str, int, int]) -> None:
    graph, kind, macs, params = row
    result = profile(tmp_path, graph)
    assert [record.kind for record in result.operators] == [kind]
    assert (result.macs, result.params, result.exact, result.format) == (macs, params, True, "tflite")


def test_a_transposed_convolution_has_its_shape_as_an_input(tmp_path: Path) -> None:
    graph = Sub(
        [
            T("shape", (4,), "int32", b"".join(n.to_bytes(4, "little") for n in (1, 8, 8, 5))),
            T("w", (5, 2, 2, 3), data=zeros(240)),
            T("x", (1, 4, 4, 3)),
            T("y", (1, 8, 8, 5)),
        ],
        [Op("TRANSPOSE_CONV", "shape w x", "y")],
        "x",
        "y",
    )
    result = profile(tmp_path, graph)
    assert (result.macs, result.params, result.weight_bytes) == (48 * 20, 60, 240 + 16)


def test_int8_throughout_suits_the_edge_tpu(tmp_path: Path) -> None:
    graph = Sub(
        [
            T("x", (1, 8, 8, 4), "int8"),
            T("w", (8, 1, 1, 4), "int8", zeros(32)),
            T("b", (8,), "int32", zeros(32)),
            T("a", (1, 8, 8, 8), "int8"),
            T("r", (1, 8, 8, 8), "int8"),
            T("y", (1, 512), "int8"),
        ],
        [Op("CONV_2D", "x w b", "a"), Op("RELU6", "a", "r"), Op("RESHAPE", "r", "y")],
        "x",
        "y",
    )
    result = profile(tmp_path, graph)
    conv = by_op(result, "CONV_2D")
    assert (result.precision, result.params, conv.read_bytes) == ("int8", 40, 256 + 32 + 32)
    assert grouped(result) == [["CONV_2D", "RELU6", "RESHAPE"]]
    assert "edgetpu" not in result.unsupported
    assert "tflite" not in result.unsupported
    assert result.unsupported["tensorrt"][0].startswith("format: ")
    assert result.peak_bytes == 256 + 512


def test_dequantised_weights_count_with_their_stored_size(tmp_path: Path) -> None:
    graph = Sub(
        [
            T("x", (1, 4)),
            T("h", (6, 4), "fp16", zeros(48)),
            T("w", (6, 4)),
            T("y", (1, 6)),
        ],
        [Op("DEQUANTIZE", "h", "w"), Op("FULLY_CONNECTED", "x w", "y")],
        "x",
        "y",
    )
    (record,) = profile(tmp_path, graph).operators
    assert (record.params, record.weight_bytes, record.read_bytes, record.precision) == (
        24,
        48,
        16 + 48,
        "fp32",
    )


def test_an_open_batch_is_refused_until_it_is_bound(tmp_path: Path) -> None:
    graph = Sub(
        [
            T("x", (1, 4), signature=(-1, 4)),
            T("w", (6, 4), data=zeros(96)),
            T("y", (1, 6), signature=(-1, 6)),
        ],
        [Op("FULLY_CONNECTED", "x w", "y")],
        "x",
        "y",
    )
    with pytest.raises(AnalysisError) as caught:
        profile(tmp_path, graph)
    assert "input 'x' leaves open: batch (batch x 4)" in str(caught.value)
    assert caught.value.hint == "bind it: --shape batch=1"
    assert profile(tmp_path, graph, batch=(5,)).macs == 5 * 24
    assert profile(tmp_path, graph, x=(5, 4)).outputs == (Tensor("y", (5, 6), "fp32"),)


def test_a_compiled_model_is_opaque(tmp_path: Path) -> None:
    graph = Sub(
        [T("x", (1, 8), "int8"), T("y", (1, 9), "int8")],
        [Op("custom.edgetpu-custom-op", "x", "y", custom=zeros(5000))],
        "x",
        "y",
    )
    result = profile(tmp_path, graph)
    assert (result.macs, result.weight_bytes, result.exact) == (0, 5000, False)
    assert any("compiled for the Edge TPU" in note for note in result.notes)
    assert not any(reason.startswith("operator") for reason in result.unsupported["edgetpu"])


def loop(body: int) -> tuple[Sub, Sub]:
    """Make a loop over a body by its number."""
    state = [T("x", (2, 2)), T("w", (2, 2), data=zeros(16)), T("y", (2, 2))]
    main = Sub([T("x", (2, 2)), T("y", (2, 2))], [Op("WHILE", "x", "y", {0: 1, 1: body})], "x", "y")
    return main, Sub(state, [Op("FULLY_CONNECTED", "x w", "y")], "x", "y")


def test_bodies_are_found_by_number(tmp_path: Path) -> None:
    result = profile(tmp_path, *loop(1))
    assert (ops(result), result.macs, result.exact) == (["FULLY_CONNECTED", "WHILE"], 8, False)
    assert any("no body" in note for note in profile(tmp_path, *loop(9)).notes)


def test_a_recursive_body_is_refused(tmp_path: Path) -> None:
    main, _ = loop(1)
    with pytest.raises(AnalysisError, match="nested bodies"):
        profile(tmp_path, main, main)


def test_names_may_be_missing_or_the_same(tmp_path: Path) -> None:
    graph = Sub(
        [T("x", (2,)), T("", (2,)), T("y", (2,))], [Op("ABS", "x", ""), Op("ABS", "x", "y")], "x", "y"
    )
    assert profile(tmp_path, graph).outputs[0].name == "y"


def test_data_shorter_than_its_dims_is_refused(tmp_path: Path) -> None:
    graph = Sub(
        [T("x", (1, 4)), T("w", (6, 4), data=zeros(95)), T("y", (1, 6))],
        [Op("FULLY_CONNECTED", "x w", "y")],
        "x",
        "y",
    )
    with pytest.raises(AnalysisError, match="tensor 'w' has 95 bytes, its dims need 96"):
        profile(tmp_path, graph)
