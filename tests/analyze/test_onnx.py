"""ONNX files: how tensors are stored, where external data may be, and that weights are never read."""

import os
import struct
import tracemalloc
from pathlib import Path

import pytest

from fairlead import varint
from fairlead.analyze import analyze
from fairlead.errors import AnalysisError
from fairlead.workload import Profile
from fairlead.zoo.graph import NetGraph
from fairlead.zoo.onnxfile import len_field, save, string_field, varint_field
from tests.analyze.models import graph, node, value

MATRIX = (4, 6)


def tensor(*fields: bytes, name: str = "w", dims: tuple[int, ...] = MATRIX, dtype: int = 1) -> bytes:
    """Return a tensor of the graph, as its field."""
    return len_field(
        5,
        b"".join(varint_field(1, dim) for dim in dims)
        + varint_field(2, dtype)
        + string_field(8, name)
        + b"".join(fields),
    )


def with_tensors(folder: Path, made: NetGraph, *tensors: bytes) -> str:
    """Write a model whose initializers are encoded by hand; the graph is one field."""
    path = folder / "tiny.onnx"
    with open(path, "wb") as out:
        save(made, out, 17, {})
    data = path.read_bytes()
    head = data.index(b"\x3a")  # the graph is the last field
    length, start = 0, head + 1
    for shift in range(0, 35, 7):
        byte = data[start]
        length |= (byte & 0x7F) << shift
        start += 1
        if byte < 0x80:
            break
    body = data[start : start + length] + b"".join(tensors)
    path.write_bytes(data[:head] + b"\x3a" + varint.encode(len(body)) + body)
    return str(path)


def product(folder: Path, *tensors: bytes) -> Profile:
    """Analyse a product with a matrix in the given encoding."""
    made = graph([node("MatMul", "x w", "y")], [value("x", 2, 4)])
    return analyze(with_tensors(folder, made, *tensors))


def entry(**pairs: str) -> bytes:
    """Return the fields of a tensor's external data."""
    fields = b"".join(
        len_field(13, string_field(1, key) + string_field(2, pair)) for key, pair in pairs.items()
    )
    return fields + varint_field(14, 1)


@pytest.mark.parametrize(
    "fields",
    [
        [len_field(9, bytes(96))],
        [len_field(4, bytes(96))],
        [],
        [len_field(9, b"")],
    ],
    ids=["raw", "typed", "stripped", "empty"],
)
def test_a_matrix_counts_however_it_is_stored(tmp_path: Path, fields: list[bytes]) -> None:
    result = product(tmp_path, tensor(*fields))
    assert (result.macs, result.params, result.weight_bytes) == (48, 24, 96)
    stripped = "the file has no weight data: weights are counted from their dims"
    assert result.notes == ((stripped,) if not fields or fields == [len_field(9, b"")] else ())


@pytest.mark.parametrize(
    ("fields", "dims"),
    [
        ([len_field(9, bytes(95))], MATRIX),
        ([len_field(9, bytes(97))], MATRIX),
        ([len_field(4, bytes(92))], MATRIX),
        ([len_field(9, bytes(96))], (4, -6)),
    ],
)
def test_data_that_does_not_fit_its_dims_is_refused(
    tmp_path: Path, fields: list[bytes], dims: tuple[int, ...]
) -> None:
    with pytest.raises(AnalysisError, match="cut off or damaged"):
        product(tmp_path, tensor(*fields, dims=dims))


def test_a_tensor_larger_than_any_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="tensor 'w' of 4294967296x4294967296 elements"):
        product(tmp_path, tensor(dims=(2**32, 2**32)))


def test_half_the_bits_take_half_the_bytes(tmp_path: Path) -> None:
    four_bits = tensor(len_field(9, bytes(12)), name="q", dtype=22)
    scale = tensor(len_field(9, bytes(4)), name="s", dims=())
    made = graph([node("DequantizeLinear", "q s", "w"), node("MatMul", "x w", "y")], [value("x", 2, 4)])
    result = analyze(with_tensors(tmp_path, made, four_bits, scale))
    assert (result.params, result.weight_bytes, result.operators[0].read_bytes) == (24, 16, 32 + 12)


def test_a_sparse_matrix_counts_what_it_stores(tmp_path: Path) -> None:
    values = varint_field(1, 3) + varint_field(2, 1) + string_field(8, "w") + len_field(9, bytes(12))
    indices = varint_field(1, 3) + varint_field(2, 7) + len_field(9, bytes(24))
    sparse = len_field(
        15, len_field(1, values) + len_field(2, indices) + varint_field(3, 4) + varint_field(3, 6)
    )
    result = product(tmp_path, sparse)
    assert (result.macs, result.params, result.weight_bytes) == (48, 3, 36)


def test_data_beside_the_model_is_measured(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(bytes(1000))
    place = {"location": "weights/w.bin", "offset": "904", "length": "96"}
    result = product(tmp_path, tensor(entry(**place)))
    assert (result.params, result.weight_bytes, result.notes) == (24, 96, ())


def test_small_external_integers_are_read(tmp_path: Path) -> None:
    (tmp_path / "all.bin").write_bytes(bytes(8) + struct.pack("<2q", -1, 2))
    shape = tensor(entry(location="all.bin", offset="8", length="16"), name="w", dims=(2,), dtype=7)
    made = graph([node("Reshape", "x w", "y")], [value("x", 2, 4)])
    assert analyze(with_tensors(tmp_path, made, shape)).outputs[0].dims == (4, 2)


def test_missing_data_is_noted(tmp_path: Path) -> None:
    result = product(tmp_path, tensor(entry(location="gone.bin")))
    assert result.params == 24
    assert result.notes == ("external data is missing: weights are counted from their dims",)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"location": "/etc/hostname"}, "not inside the model's folder"),
        ({"location": "../model/w.bin"}, "not inside the model's folder"),
        ({"location": "a/../../w.bin"}, "not inside the model's folder"),
        ({"location": ""}, "not inside the model's folder"),
        ({"location": "a\nb"}, "not inside the model's folder"),
        ({"location": "out.bin"}, "a link out of the model's folder"),
        ({"location": "folder"}, "is not a file"),
        ({"location": "w.bin", "offset": "5"}, "that file is cut off"),
        ({"location": "w.bin", "length": "95"}, "95 bytes of external data, its dims need 96"),
        ({"location": "w.bin", "offset": "-1"}, "an invalid offset or length"),
        ({"location": "w.bin", "offset": "9" * 30}, "an invalid offset or length"),
    ],
)
def test_external_data_outside_the_folder_is_refused(
    tmp_path: Path, place: dict[str, str], message: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "folder").mkdir()
    (folder / "w.bin").write_bytes(bytes(100))
    (tmp_path / "secret").write_bytes(bytes(100))
    (folder / "out.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(AnalysisError, match=message):
        product(folder, tensor(entry(**place)))


def test_a_hub_links_model_and_data_to_one_folder(tmp_path: Path) -> None:
    blobs, shown = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    shown.mkdir()
    (blobs / "b2").write_bytes(bytes(96))
    product(blobs, tensor(entry(location="w.bin")))
    (shown / "model.onnx").symlink_to(blobs / "tiny.onnx")
    (shown / "w.bin").symlink_to(blobs / "b2")
    assert analyze(str(shown / "model.onnx")).notes == ()


def test_weights_are_never_read(tmp_path: Path) -> None:
    """A sparse file with a matrix of 4 GB takes no memory."""
    side = 32768
    size = side * side * 4
    made = graph([node("MatMul", "x w", "y")], [value("x", 1, side)])
    path = Path(with_tensors(tmp_path, made))
    data = path.read_bytes()
    head = (
        varint_field(1, side)
        + varint_field(1, side)
        + varint_field(2, 1)
        + string_field(8, "w")
        + varint.encode(9 << 3 | 2)
        + varint.encode(size)
    )
    body = data[data.index(b"\x3a") + 2 :]
    inner = body + varint.encode(5 << 3 | 2) + varint.encode(len(head) + size) + head
    with open(path, "wb") as out:
        out.write(data[: data.index(b"\x3a")] + b"\x3a" + varint.encode(len(inner) + size) + inner)
        out.truncate(out.tell() + size)
    tracemalloc.start()
    result = analyze(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (result.params, result.weight_bytes) == (side * side, size)
    assert peak < 2**20
    os.truncate(path, size // 2)
    with pytest.raises(AnalysisError, match="cut off or damaged"):
        analyze(str(path))
