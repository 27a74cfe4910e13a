"""`--train`: the options, the document and the page."""

import json
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.cli.model.training import long_time
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write
from tests.test_prediction import FIELDS

PARTS = [
    "weights_bytes",
    "gradients_bytes",
    "optimizer_bytes",
    "activations_bytes",
    "workspace_bytes",
    "peak_bytes",
]


@pytest.fixture
def model(tmp_path: Path) -> str:
    file = str(tmp_path / "mobilenet_v2.onnx")
    write(KNOWN["mobilenet_v2"](1, "fp32"), file)
    return file


def test_the_document_of_an_estimate_is_frozen(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--train", "--batch", "16", "--optimizer", "adam", "--samples", "1000", "--epochs", "3")
    assert main(["estimate", model, "--on", "t4,coral-usb", *words, "-o", "json"]) == 0
    trained, refused = json.loads(capsys.readouterr().out)["estimates"]
    more = ["samples_per_second", "device_bytes", "memory", "steps", "job_seconds", "job_joules"]
    assert list(trained) == list(refused) == [*FIELDS, *more]
    assert list(trained["memory"]) == PARTS
    assert trained["memory_bytes"] == trained["memory"]["peak_bytes"]
    assert (trained["steps"], refused["runs"], refused["memory"]) == (189, False, None)


def test_the_document_of_an_analysis_is_frozen(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", model, "--train", "-o", "json"]) == 0
    training = json.loads(capsys.readouterr().out)["training"]
    assert list(training) == [
        "batch",
        "optimizer",
        "precision",
        "checkpointing",
        "trained_weights",
        "norms_restored",
        "step_macs",
        "kernels",
        "memory",
        "steps",
    ]
    assert (training["batch"], training["optimizer"], training["precision"]) == (32, "sgd", "fp32")
    assert list(training["memory"]) == PARTS


def test_the_page_names_the_parts(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", model, "--train", "--precision", "amp"]) == 0
    out = capsys.readouterr().out
    assert "training: batch 32, sgd, amp" in out
    assert "kept activations" in out
    assert main(["estimate", model, "--train", "--on", "t4,coral-usb", "--samples", "10000000"]) == 0
    out = capsys.readouterr().out
    assert "SAMPLES/S" in out
    assert "does not train: operator: frameworks do not train" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("estimate", "--optimizer", "adam"), "--optimizer is about training"),
        (("analyze", "--checkpointing"), "--checkpointing is about training"),
        (("analyze", "--batch", "8"), "--precision and --batch are about training here"),
        (("estimate", "--train", "--precision", "int8", "--on", "t4"), "nothing trains in it"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    words: tuple[str, ...], message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *rest = words
    assert main([command, model, *rest]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(12.0, "12 s"), (600, "10 min"), (4 * 3600 + 60, "4 h 1 min"), (50 * 3600, "2 d 2 h")],
)
def test_long_times_are_short_texts(seconds: float, text: str) -> None:
    assert long_time(seconds) == text


ROUND = ("--train", "--samples", "20000", "--federated", "jetson-orin-nano,rtx-3090,rtx-3090")


def test_a_federated_round(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", model, *ROUND, "--link", "10MB/s", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    result = document["federated"]
    assert [each["device"] for each in result["devices"]] == ["jetson-orin-nano", "rtx-3090", "rtx-3090#2"]
    assert sum(each["samples"] for each in result["devices"]) == 20000
    assert result["straggler"] == "jetson-orin-nano"
    assert result["round_seconds"] < result["equal_round_seconds"]
    assert result["link_bytes_per_second"] == 10e6
    assert main(["estimate", model, *ROUND]) == 0
    assert "jetson-orin-nano is waited for" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--federated", "rtx-3090,t4"), "--federated is about training"),
        (("--train", "--federated", "rtx-3090,t4"), "--federated needs --samples"),
        (("--train", "--samples", "9", "--federated", "t4"), "one device is no federation"),
        (("--train", "--samples", "9", "--federated", "t4,coral-usb"), "coral-usb cannot take part"),
        ((*ROUND, "--link", "fast"), "--link fast: not a rate"),
    ],
)
def test_rounds_that_cannot_be_are_refused(
    words: tuple[str, ...], message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", model, *words]) == 2
    assert message in capsys.readouterr().err
