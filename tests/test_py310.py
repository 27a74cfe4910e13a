"""A slice of the core's tests on Python 3.10, the version of JetPack 6; `make test-py310` runs them all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.errors import LabError
from tests.lab.python310 import ensure_packages, ensure_python
from tests.labs import skip_without_lab

HOUSE = Path(__file__).parents[1]
SCRIPT = HOUSE / "scripts" / "py310.py"
SLICE = (
    "tests/test_compat.py",
    "tests/test_units.py",
    "tests/test_invite.py",
    "tests/device/test_queue.py",
    "tests/device/test_upload.py",
    "tests/device/test_session.py",
    "tests/test_host.py",
    "tests/catalog/test_schema.py",
    "tests/detect/test_devicetree.py",
    "tests/detect/test_state.py",
    "tests/analyze/test_support.py",
    "tests/estimate/test_predict.py",
    "tests/calibrate/test_profile.py",
    "tests/kubelet/test_plugin.py",
    "tests/serve/agent/test_pod_resources_tracker.py",
    "tests/cluster/test_informer.py",
)
pytestmark = pytest.mark.xdist_group("py310")


@pytest.fixture(scope="module", autouse=True)
def _python() -> None:
    """Fetch the interpreter and its packages; if that fails, skip, or fail with CI=true."""
    try:
        ensure_packages(ensure_python(), HOUSE / "requirements/py310.txt")
    except LabError as error:
        skip_without_lab(str(error).splitlines()[0])


def python310(*argv: str) -> "subprocess.CompletedProcess[str]":
    """Run Python 3.10."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    line = [sys.executable, str(SCRIPT), *argv]
    return subprocess.run(line, env=environ, cwd=HOUSE, capture_output=True, text=True, check=False)


def test_the_tests_of_the_core_pass() -> None:
    done = python310("-m", "pytest", "-q", "-p", "no:cacheprovider", *SLICE)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


def test_detect_finds_a_board() -> None:
    done = python310("-m", "fairlead", "detect", "--root", "tests/hosts/jetson-orin-nano/root", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert "jetson-orin-nano" in {
        accelerator["model"] for accelerator in json.loads(done.stdout)["accelerators"]
    }


@pytest.mark.parametrize("program", ["scheduler", "extender"])
def test_a_program_that_needs_a_newer_python_exits_with_a_message(program: str) -> None:
    done = python310("-m", "fairlead", "serve", program)
    assert done.returncode == 2
    assert f"serve {program} needs Python 3.11 or newer, this is Python 3.10" in done.stderr
    assert "Traceback" not in done.stderr
