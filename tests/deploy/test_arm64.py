"""The arm64 images on an emulated machine: commands print the same as on this one, and core tests pass.

`make test-arm64` runs all of the core's tests there.
"""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from fairlead import __version__
from fairlead.cli.main import main
from fairlead.errors import FairleadError
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write
from tests.arm64 import Board, board, obstacle, output_of, pytest_command, with_tree
from tests.images import HOUSE
from tests.labs import skip_without_lab

HOSTS = HOUSE / "tests" / "hosts"
BOARDS = ("coral-dev-board", "imx8mp", "jetson-nano", "raspberry-pi-5-hailo", "rock-5b-vendor", "server-t4")
DEVICES = "coral-usb,jetson-nano,jetson-orin-nano,t4"
SLICE = (
    *(
        "tests/test_inventory.py",
        "tests/test_units.py",
        "tests/detect/test_cpu.py",
        "tests/detect/test_merge.py",
    ),
    "tests/publish/test_labels.py",
)
"""Tests that start no program: they pass even if a user namespace cannot register an emulator."""
SEVERAL = """
import json, sys
sys.path.append("/usr/lib/fairlead")
from fairlead import __version__
from fairlead.cli.main import main
for command in json.loads(sys.argv[1]):
    print(main(command))
"""

pytestmark = pytest.mark.xdist_group("arm64")


def boot(recipe: str, root: Path) -> Board:
    reason = obstacle()
    if reason.startswith("this machine is"):
        pytest.skip(reason)
    if reason:
        skip_without_lab(reason)
    try:
        return board(recipe, root)
    except FairleadError as error:
        skip_without_lab(f"no emulated arm64: {str(error).splitlines()[0]}")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return boot("agent", tmp_path_factory.mktemp("agent"))


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return boot("scheduler", tmp_path_factory.mktemp("scheduler"))


def here(commands: list[list[str]]) -> str:
    """Return the output of commands on this machine, each with its exit code."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        for command in commands:
            print(main(command))
    return output.getvalue()


def rounded(text: str) -> str:
    """Return a document with its long numbers rounded to nine digits: processors differ in the last ones."""
    return re.sub(r"\d+\.\d{9,}(e-?\d+)?", lambda number: f"{float(number[0]):.9g}", text)


def test_the_image_is_arm64(agent: Board) -> None:
    code = "import os, struct; print(os.uname().machine, struct.calcsize('P'))"
    assert agent.run("-IS", "-c", code) == "aarch64 8\n"
    assert agent.run("-IS", "/usr/bin/fairlead", "--version") == f"fairlead {__version__}\n"


def test_boards_are_recognised_as_on_this_machine(agent: Board) -> None:
    def commands(hosts: str) -> list[list[str]]:
        return [["detect", "--root", f"{hosts}/{name}/root", "-o", "json"] for name in BOARDS]

    shown = agent.run("-IS", "-c", SEVERAL, json.dumps(commands("/run/hosts")), bind={HOSTS: "/run/hosts"})
    assert shown.replace("/run/hosts", str(HOSTS)) == here(commands(str(HOSTS)))
    assert "jetson-nano" in shown


def test_models_are_analyzed_and_estimated_as_on_this_machine(
    scheduler: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (scheduler.root / "models").mkdir()
    model = scheduler.root / "models" / "model.onnx"
    write(KNOWN["mobilenet_v2"](1, "fp32"), str(model))

    def commands(path: str) -> list[list[str]]:
        return [["analyze", path, "-o", "json"], ["estimate", path, "--on", DEVICES, "-o", "json"]]

    # The image leaves out modules that estimate needs, so the command is the working tree's.
    shown = output_of(with_tree(scheduler, ["-c", SEVERAL, json.dumps(commands("/models/model.onnx"))]))
    assert rounded(shown.replace("/models/model.onnx", str(model))) == rounded(here(commands(str(model))))
    assert "jetson-orin-nano" in shown


def test_a_slice_of_the_cores_tests_passes(agent: Board) -> None:
    assert " passed in " in output_of(pytest_command(agent, SLICE))
