"""`fairlead estimate`: a table for people, a document for programs, and errors."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fairlead.calibrate.profile import save
from fairlead.cli.main import main
from fairlead.cli.model.estimate import format_energy, format_time
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write
from tests.analyze.models import graph, node, saved, value, weight
from tests.estimate.worlds import calibration, setup
from tests.test_prediction import FIELDS

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command, as a user without profiles, and return its exit code and what it printed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def run_command(*words: str) -> tuple[int, str, str]:
        code = main(["estimate", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run_command


@pytest.fixture
def model(tmp_path: Path) -> str:
    file = str(tmp_path / "mobilenet_v2.onnx")
    write(KNOWN["mobilenet_v2"](1, "fp32"), file)
    return file


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    save(calibration(setup("t4")), str(tmp_path / "profiles" / "t4.json"))
    return tmp_path / "profiles"


def test_the_document_is_frozen(run: Run, model: str) -> None:
    code, out, err = run(model, "--on", "coral-usb,jetson-tx2,cpu-x86-64-avx2", "-o", "json")
    document = json.loads(out)
    assert (code, err, list(document)) == (0, "", ["estimates"])
    assert [list(each) for each in document["estimates"]] == [FIELDS] * 3
    assert [each["device"] for each in document["estimates"]] == [
        "coral-usb",
        "jetson-tx2",
        "cpu-x86-64-avx2",
    ]


def test_a_group_expands_to_every_device_with_its_options(run: Run, model: str) -> None:
    code, out, _ = run(model, "--on", "jetson@15w", "-o", "json")
    found = {each["device"]: each for each in json.loads(out)["estimates"]}
    assert code == 0
    assert {"jetson-tx1@15w", "jetson-nano@15w", "jetson-orin-nx@15w", "jetson-agx-thor@15w"} < set(found)
    assert all(name.startswith("jetson-") for name in found)
    assert found["jetson-tx2@15w"]["runs"]
    assert found["jetson-nano@15w"]["reasons"] == ["jetson-nano has no mode of 15 W"]
    _, table, _ = run(model, "--on", "jetson@15w")
    assert "does not run: jetson-nano has no mode of 15 W" in table


def test_yaml_is_the_same_document(run: Run, model: str) -> None:
    words = (model, "--on", "t4@1/2", "--on", "coral-usb@usb2", "--batch", "4", "--slo", "30ms")
    assert yaml.safe_load(run(*words, "-o", "yaml")[1]) == json.loads(run(*words, "-o", "json")[1])


def test_the_table_is_for_people(run: Run, model: str) -> None:
    _, out, _ = run(model, "--on", "jetson-tx2,coral-usb,cpu-x86-64-avx2", "--slo", "10ms")
    head, first, second, third = out.splitlines()
    assert head.split() == ["DEVICE", "LATENCY", "P90", "MEMORY", "ENERGY", "CONFIDENCE", "WHY"]
    assert first.startswith("coral-usb ")
    assert "first convert it to tflite, quantise it to int8, compile it" in first
    assert second.startswith("jetson-tx2 ")
    assert "too slow; tensorrt, fp32" in second
    assert third.endswith("  not known: no peak in the catalog; calibrate, or add a row")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--on", "coral-usb"), 0),
        (("--on", "coral-usb,cpu-x86-64-avx2"), 0),
        (("--on", "cpu-x86-64-avx2"), 1),
        (("--on", "coral-usb", "--slo", "10ms"), 0),
        (("--on", "coral-usb", "--slo", "1ms"), 1),
        (("--on", "t4@1%"), 1),
        (("--on", "coral-usb", "--precision", "fp16"), 1),
    ],
)
def test_the_exit_code_is_1_if_no_device_is_good(
    run: Run, model: str, words: tuple[str, ...], code: int
) -> None:
    assert run(model, *words)[0] == code


def test_profiles_improve_the_estimate(run: Run, model: str, profiles: Path) -> None:
    plain = json.loads(run(model, "--on", "t4", "-o", "json")[1])["estimates"][0]
    words = (model, "--on", "t4", "--profiles", str(profiles), "-o", "json")
    calibrated = json.loads(run(*words)[1])["estimates"][0]
    assert (plain["basis"], plain["confidence"]) == ("data sheet", "low")
    assert calibrated["basis"] == "calibrated"
    assert calibrated["runtime"] == "onnxruntime-cuda"


def test_the_users_own_profiles_are_read(run: Run, model: str, tmp_path: Path) -> None:
    save(calibration(setup("t4")), str(tmp_path / "data" / "fairlead" / "profiles" / "t4.json"))
    [found] = json.loads(run(model, "--on", "t4", "-o", "json")[1])["estimates"]
    assert found["basis"] == "calibrated"


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b"[]", b'{"version": 1}', b'{"version": 2}'])
def test_a_damaged_profile_is_named_and_skipped(run: Run, model: str, profiles: Path, content: bytes) -> None:
    (profiles / "broken.json").write_bytes(content)
    code, out, err = run(model, "--on", "t4", "--profiles", str(profiles), "-o", "json")
    assert (code, json.loads(out)["estimates"][0]["basis"]) == (0, "calibrated")
    assert "skipped" in err
    assert "broken.json" in err


def test_without_on_the_estimate_is_for_this_machine(run: Run, model: str) -> None:
    code, out, _ = run(model, "-o", "json")
    assert code in (0, 1)
    assert json.loads(out)["estimates"]


def test_shape_binds_an_open_dimension(run: Run, tmp_path: Path) -> None:
    made = graph([node("Conv", "x w", "y")], [value("x", "batch", 3, 8, 8)], [weight("w", 4, 3, 3, 3)])
    file = saved(tmp_path, made)
    assert run(file, "--on", "t4")[0] == 2
    assert run(file, "--on", "t4", "--shape", "batch=2")[0] == 0


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("--on", "corall-usb"), "no device 'corall-usb'", "did you mean coral-usb"),
        (("--on", "coral-usb@pcie3"), "coral-usb is not on pcie", "it is on usb"),
        (("--on", "a100@8/7"), "a share is more than 0 and at most 1", "1/7"),
        (("--on", ","), "no device is named", "--on coral-usb"),
        (("--on", "t4", "--slo", "soon"), "--slo soon: not a duration", "30ms"),
        (("--on", "t4", "--slo", "0ms"), "cannot be met", "30ms"),
        (("--on", "t4", "--slo", "30"), "--slo 30: a time needs a unit, for example 30ms", "--slo 30ms"),
        (("--on", "t4@0"), "a share is more than 0 and at most 1", "1/7"),
        (("--on", "t4@1/2@1/7"), "'1/7' repeats a kind", "one of each kind"),
        (("--on", "jetson-tx2@15w@7.5w"), "'7.5w' repeats a kind", "one of each kind"),
        (("--on", "t4", "--batch", "0"), "a batch of 0", "from 1"),
        (("--on", "t4", "--precision", "int7"), "no precision 'int7'", "int8"),
        (("--on", "t4", "--profiles", "/nowhere"), "--profiles /nowhere", "a folder of profiles"),
    ],
)
def test_an_error_names_the_fault_and_the_fix(
    run: Run, model: str, words: tuple[str, ...], message: str, hint: str
) -> None:
    code, out, err = run(model, *words)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert message in first
    assert hint in second


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"\x1f\x8b\x08\x00", b"not a model"])
def test_a_file_that_is_not_a_model_is_refused(run: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.onnx").write_bytes(content)
    code, out, err = run(str(tmp_path / "odd.onnx"), "--on", "t4")
    assert (code, out) == (2, "")
    assert "odd.onnx" in err


def test_a_folder_and_a_missing_file_are_refused(run: Run, tmp_path: Path) -> None:
    assert run(str(tmp_path), "--on", "t4")[0] == 2
    assert run(str(tmp_path / "gone.onnx"), "--on", "t4")[0] == 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.000223, "0.223 ms"),
        (0.0305, "30.5 ms"),
        (0.999, "999 ms"),
        (1.052, "1.05 s"),
        (40210.4, "40,210 s"),
    ],
)
def test_latencies_are_formatted_for_people(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


def test_energy_is_formatted_for_people() -> None:
    assert [format_energy(joules) for joules in (0.0241, 2.6, 11300.0)] == ["24.1 mJ", "2.6 J", "11,300 J"]


def test_a_device_is_shown_once_and_a_precision_ignores_case(run: Run, model: str) -> None:
    out = run(model, "--on", "T4,t4", "--on", "t4", "--precision", "INT8", "-o", "json")[1]
    [found] = json.loads(out)["estimates"]
    assert (found["device"], found["precision"]) == ("T4", "int8")


def test_a_language_model_is_answered_for_one_forward_pass(run: Run, tmp_path: Path) -> None:
    nodes = [node("Gather", "table ids", "x"), node("MatMul", "x head", "y")]
    weights = [weight("table", 2000, 8), weight("head", 8, 2000)]
    file = saved(tmp_path, graph(nodes, [value("ids", 1, "length", dtype="int64")], weights))
    line = (
        "one forward pass of a language model (7 tokens): "
        "tokens per second and the growing KV cache are not predicted"
    )
    words = (file, "--on", "t4", "--shape", "length=7")
    assert run(*words)[1].splitlines()[-1] == f"note: {line}"
    [estimate] = json.loads(run(*words, "-o", "json")[1])["estimates"]
    assert (estimate["scope"], estimate["state"]) == (line, "runs")
    assert "one forward pass" not in run(*words, "--train")[1], "a step is forward and backward"
