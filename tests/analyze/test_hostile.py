"""Untrusted files: whatever they hold, the result is a profile or a clear error, soon and in little space."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fairlead import varint
from fairlead.analyze import analyze
from fairlead.errors import AnalysisError
from fairlead.workload import Profile
from fairlead.zoo.graph import NetGraph, Weight
from fairlead.zoo.onnxfile import len_field, string_field, varint_field
from tests.analyze.models import graph, ints, node, saved, value, weight
from tests.tflites import Byte, Op, Sub, T, model, zeros

QUICK = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def busy() -> NetGraph:
    """Make a model with one of everything that readers and passes handle."""
    branch = NetGraph("side", (), (value("o"),), (node("Relu", "r", "o"),))
    return graph(
        [
            node("Conv", "x w", "c", pads=(1, 1, 1, 1)),
            node("BatchNormalization", "c s s s s", "n"),
            node("QuantizeLinear", "n k z", "q"),
            node("DequantizeLinear", "q k z", "d"),
            node("Shape", "d", "sh"),
            node("Gather", "sh first", "g"),
            node("Concat", "g rest", "to", axis=0),
            node("Reshape", "d to", "r"),
            node("If", "test", "i", then_branch=branch, else_branch=branch),
            node("MatMul", "i m", "p"),
            node("Softmax", "p", "f"),
            node("MatMul", "f i", "y"),
        ],
        [value("x", 1, 4, 5, 5), value("test", dtype="bool"), value("m", 100, 1)],
        [
            weight("w", 4, 4, 3, 3),
            weight("s", 4),
            Weight("k", (), "fp32", (0.5,)),
            Weight("z", (), "int8", (0,)),
            ints("first", 0),
            ints("rest", -1),
        ],
    )


def flat() -> bytes:
    return model(
        Sub(
            [T("x", (1, 4, 4, 2)), T("w", (3, 1, 1, 2), data=zeros(24)), T("c", (1, 4, 4, 3)), T("y", (48,))],
            [Op("CONV_2D", "x w", "c", {0: Byte(0)}), Op("RESHAPE", "c", "y")],
            "x",
            "y",
        ),
        Sub([T("x", (2,)), T("y", (2,))], [Op("WHILE", "x", "y", {0: 0, 1: 1})], "x", "y"),
    )


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("seeds")
    return {"onnx": Path(saved(folder, busy())).read_bytes(), "tflite": flat()}


def outcome(folder: Path, data: bytes) -> Profile | AnalysisError:
    """Analyse some bytes; anything but a profile or the error is a failure of the test."""
    path = folder / "model"
    path.write_bytes(data)
    try:
        result = analyze(str(path))
    except AnalysisError as error:
        refusal = error
    else:
        for record in result.operators:
            assert min(record.macs, record.params, record.read_bytes, record.written_bytes) >= 0
        assert result.peak_bytes >= 0
        return result
    assert refusal.hint
    assert str(refusal).isprintable()
    assert len(str(refusal)) < 1000
    return refusal


@pytest.mark.parametrize("form", ["onnx", "tflite"])
def test_the_seeds_are_valid_models(tmp_path: Path, seeds: dict[str, bytes], form: str) -> None:
    assert isinstance(outcome(tmp_path, seeds[form]), Profile)


@pytest.mark.parametrize("form", ["onnx", "tflite"])
def test_a_file_cut_off_anywhere_is_refused_or_analysed(
    tmp_path: Path, seeds: dict[str, bytes], form: str
) -> None:
    data = seeds[form]
    for length in range(0, len(data), 1 + len(data) // 400):
        outcome(tmp_path, data[:length])


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5000),
        st.sampled_from(
            [b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"", b"\x01"]
        )
        | st.binary(min_size=1, max_size=6),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("form", ["onnx", "tflite"])
@given(changes=CHANGES)
@QUICK
def test_a_file_with_changed_bytes_is_refused_or_analysed(
    tmp_path: Path, seeds: dict[str, bytes], form: str, changes: list[tuple[int, bytes, int]]
) -> None:
    data = bytearray(seeds[form])
    for place, new, over in changes:
        at = place % len(data)
        data[at : at + over] = new
    outcome(tmp_path, bytes(data))


@given(st.binary(max_size=300))
@example(b"")
@example(b"\x08\x08")
@example(b"\x08\x08\x3a\x00")
@example(b"\x00\x00\x00\x00TFL3")
@example(b"\xff\xff\xff\xffTFL3")
@QUICK
def test_random_bytes_are_refused_or_analysed(tmp_path: Path, data: bytes) -> None:
    outcome(tmp_path, data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "neither an ONNX nor a TFLite file"),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"\x89HDF\r\n", "an HDF5 file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer to a file in Git LFS"),
        (b"\x00\x00\x00\x00ORTM", "ONNX Runtime's own format"),
        (b"\x08\x08", "an ONNX file without a graph"),
    ],
)
def test_other_files_are_named(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "model"
    path.write_bytes(data)
    with pytest.raises(AnalysisError, match=message):
        analyze(str(path))


def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    for path in (str(tmp_path), str(tmp_path / "gone"), "a\0b", "/dev/zero"):
        with pytest.raises(AnalysisError):
            analyze(path)


ALONE = """
import re, sys, time
from fairlead.analyze import analyze
from fairlead.errors import AnalysisError
began = time.process_time()
try:
    analyze(sys.argv[1])
except AnalysisError as error:
    print(error)
with open("/proc/self/status") as status:
    print(time.process_time() - began, re.search(r"VmHWM:\\s*(\\d+)", status.read())[1])
"""
"""A program that analyses one file and prints its messages, its seconds, and its peak memory in KiB."""


def alone(path: Path) -> tuple[str, float, float]:
    """Analyse a file in a process of its own; return its messages, seconds and MiB."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    *messages, figures = done.stdout.splitlines()
    seconds, peak = figures.split()
    return "".join(messages), float(seconds), int(peak) / 1024


def whole(*fields: bytes) -> bytes:
    """Return a model of a graph's fields."""
    return varint_field(1, 8) + len_field(7, b"".join(fields)) + len_field(8, varint_field(2, 17))


X = len_field(
    11,
    string_field(1, "x")
    + len_field(2, len_field(1, varint_field(1, 1) + len_field(2, len_field(1, varint_field(1, 4))))),
)
Y = len_field(12, string_field(1, "y"))


def relu(input_: str, output: str) -> bytes:
    return len_field(1, string_field(1, input_) + string_field(2, output) + string_field(4, "Relu"))


HUGE: dict[str, tuple[bytes, str]] = {
    "a name of 10 MB": (whole(X, Y, relu("x", "n" * 10_000_000)), "a name of 10,000,000 bytes"),
    "too many operators": (whole(X, Y, *[relu("x", "y")] * 101_000), "more than 100,000 operators"),
    "too many inputs": (
        whole(
            X, Y, len_field(1, string_field(1, "x") * 401_000 + string_field(2, "y") + string_field(4, "Sum"))
        ),
        "more than 400,000 inputs and outputs",
    ),
    "too many fields": (
        varint_field(1, 8) + varint_field(99, 1) * 3_001_000,
        "more than 3,000,000 fields",
    ),
    "too many bytes of names": (
        whole(X, Y, *[relu("x", f"{at:04}" + "n" * 16_000) for at in range(4300)]),
        "more than 67,108,864 bytes of names",
    ),
    "many dimensions": (
        whole(X, Y, len_field(5, varint_field(1, 1) * 40 + varint_field(2, 1) + string_field(8, "w"))),
        "a tensor of more than 32 dimensions",
    ),
    "a length beyond the file": (
        varint_field(1, 8) + varint.encode(7 << 3 | 2) + varint.encode(2**62),
        "cut off or damaged",
    ),
    "a number that does not end": (varint_field(1, 8) + b"\x38" + b"\xff" * 20, "cut off or damaged"),
}


@pytest.mark.parametrize("name", HUGE)
def test_bounds_hold(tmp_path: Path, name: str) -> None:
    data, message = HUGE[name]
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    messages, seconds, mebibytes = alone(path)
    assert message in messages
    assert seconds < 15
    assert mebibytes < 300


def test_shapes_that_grow_are_refused(tmp_path: Path) -> None:
    nodes = [node("Concat", f"v{at} v{at}", f"v{at + 1}", axis=0) for at in range(80)]
    with pytest.raises(AnalysisError, match="no machine holds it"):
        analyze(saved(tmp_path, graph(nodes, [value("v0", 4)])))
    more = [node("Unsqueeze", f"v{at} axes", f"v{at + 1}") for at in range(80)]
    with pytest.raises(AnalysisError, match="no machine holds it"):
        analyze(saved(tmp_path, graph(more, [value("v0", 4)], [ints("axes", 0)])))


def test_names_cannot_control_a_terminal(tmp_path: Path) -> None:
    graph_ = graph([node("Relu", "x\x1b[2J", "y\x07")], [value("x\x1b[2J", 2)])
    result = analyze(saved(tmp_path, graph_))
    assert (result.inputs[0].name, result.outputs[0].name) == ("x?[2J", "y?")
    assert result.operators[0].name.isprintable()
    with pytest.raises(AnalysisError) as caught:
        analyze(saved(tmp_path, graph([node("Relu", "x", "y")], [value("x", "\x1b[31m")])))
    assert str(caught.value).isprintable()
    assert caught.value.hint.isprintable()
