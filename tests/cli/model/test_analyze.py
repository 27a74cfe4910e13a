"""`fairlead analyze`: a document for programs, a table for people, and errors."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fairlead.cli.main import main
from fairlead.cli.model.analyze import format_count
from tests.analyze.models import graph, node, saved, value, weight

Run = Callable[..., tuple[int, str, str]]
PROFILE = [
    "model",
    "format",
    "digest",
    "precision",
    "batch",
    "macs",
    "params",
    "weight_bytes",
    "activations",
    "peak_bytes",
    "inputs",
    "outputs",
    "operators",
    "groups",
    "unsupported",
    "notes",
    "scope",
]
OPERATOR = [
    "name",
    "op",
    "kind",
    "macs",
    "params",
    "weight_bytes",
    "read_bytes",
    "written_bytes",
    "precision",
    "group",
    "exact",
]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command and return its exit code and what it printed."""

    def run_command(*words: str) -> tuple[int, str, str]:
        code = main(["analyze", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run_command


@pytest.fixture
def model(tmp_path: Path) -> str:
    made = graph(
        [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("my.Own", "r", "y")],
        [value("x", "batch", 3, 8, 8)],
        [weight("w", 4, 3, 3, 3)],
    )
    return saved(tmp_path, made)


def test_the_document_is_frozen(run: Run, model: str) -> None:
    code, out, _ = run(model, "--shape", "batch=2", "-o", "json")
    document = json.loads(out)
    assert (code, list(document)) == (0, PROFILE)
    assert all(list(record) == OPERATOR for record in document["operators"])
    assert [list(tensor) for tensor in document["inputs"]] == [["name", "dims", "dtype"]]
    assert (document["model"], document["format"], document["batch"]) == ("tiny.onnx", "onnx", 2)
    assert document["macs"] == 2 * 4 * 36 * 27
    assert [record["exact"] for record in document["operators"]] == [True, True, False]
    assert document["unsupported"]["tensorrt"] == ["operator: TensorRT does not run my.Own"]


def test_yaml_is_the_same_document(run: Run, model: str) -> None:
    _, as_json, _ = run(model, "--shape", "x=2x3x8x8", "-o", "json")
    _, as_yaml, _ = run(model, "--shape", "x=2x3x8x8", "-o", "yaml")
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_the_table_is_for_people(run: Run, model: str) -> None:
    _, out, _ = run(model, "--shape", "batch=2")
    lines = out.splitlines()
    assert lines[0] == "tiny.onnx: onnx, fp32, batch 2, 3 operators in about 2 kernels"
    assert (
        lines[1]
        == "at least 7.78 k multiply-adds, 108 parameters in 432 B, 288 activations, 2.6 KiB live at most"
    )
    assert lines[2] == "input x: 2 x 3 x 8 x 8, fp32"
    assert lines[5].split() == ["KIND", "OPS", "MACS", "PARAMS", "WEIGHTS", "READ", "WRITTEN"]
    assert lines[6].split()[:4] == ["conv", "1", "7.78", "k"]
    assert any(line.startswith("tensorrt: operator: ") for line in lines)
    assert any(line.startswith("note: my.Own is an unknown operator") for line in lines)
    more = run(model, "--shape", "batch=2", "-v")[1].splitlines()
    assert any(line.split()[:4] == ["0", "c", "Conv", "conv"] for line in more)
    assert any("my.Own (at least)" in line for line in more)


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ([], "input 'x' leaves open: batch (batch x 3 x 8 x 8)", "bind it: --shape batch=1"),
        (["--shape", "bath=1"], "no input or dimension 'bath'", "did you mean batch?"),
        (["--shape", "batch"], "'batch' is not a shape", "write it like input=1x3x224x224"),
    ],
)
def test_an_error_names_the_fault_and_the_fix(
    run: Run, model: str, words: list[str], message: str, hint: str
) -> None:
    code, out, err = run(model, *words)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert message in first
    assert hint in second


def test_a_missing_file_is_an_error(run: Run, tmp_path: Path) -> None:
    code, _, err = run(str(tmp_path / "gone.onnx"))
    assert (code, err.splitlines()[1]) == (2, "  name an ONNX or TFLite file")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1500, "1.5 k"),
        (25_557_032, "25.6 M"),
        (4_089_184_256, "4.09 G"),
        (3 * 10**12, "3 T"),
    ],
)
def test_counts_are_formatted_for_people(count: int, text: str) -> None:
    assert format_count(count) == text
