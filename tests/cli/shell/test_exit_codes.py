"""Exit codes of commands that fail: a fault of the program has its own code, and so has a full disk."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead import __version__
from fairlead.errors import OutputError
from fairlead.outfile import atomic_write, check_writable
from tests.cli.examples import CLUSTER, EXAMPLES, WORKLOADS
from tests.cli.shell.test_errors import shell

DAY = f"--trace {EXAMPLES}/simulate/day.yaml --cluster {EXAMPLES}/simulate/fleet.yaml --until 1h"
FAULTY = (
    "import sys; from fairlead.cli import main; import fairlead.cli.{module} as command; "
    "command.run = lambda options: {body}; sys.exit(main.main({words!r}))"
)


def faulty(module: str, body: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose `run` is replaced by a failing expression."""
    code = FAULTY.format(module=module, body=body, words=list(words))
    own = {name: value for name, value in os.environ.items() if name != "FAIRLEAD_DEBUG"}
    return subprocess.run(
        [sys.executable, "-c", code], env={**own, **env}, capture_output=True, text=True, check=False
    )


def test_a_fault_of_the_program_ends_with_70_and_one_line() -> None:
    done = faulty("machine.detect", "{}['nothing\\nhere']", "detect")
    assert (done.returncode, done.stdout) == (70, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("fairlead: detect failed")
    assert "KeyError" in line
    assert f"this is a fault of fairlead {__version__}" in line
    assert "FAIRLEAD_DEBUG=1" in line
    assert "fairlead docs report-a-fault" in line


def test_the_traceback_is_printed_on_demand() -> None:
    done = faulty("machine.detect", "1 / 0", "detect", FAIRLEAD_DEBUG="1")
    assert done.returncode == 70
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "Traceback" not in faulty("machine.detect", "1 / 0", "detect", FAIRLEAD_DEBUG="0").stderr


def test_the_first_error_of_an_exception_group_is_reported() -> None:
    body = "(_ for _ in ()).throw(ExceptionGroup('tasks', [ModuleNotFoundError('x', name='aiohttp.web')]))"
    done = faulty("cluster.nodes", body, "nodes")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "fairlead: nodes needs aiohttp, which is not installed"
    assert "[cluster]" in done.stderr or "make -C" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "fairlead catalog list > /dev/full",
        "fairlead catalog list -o json > /dev/full",
        "fairlead --help > /dev/full",
        "fairlead --version > /dev/full",
        f"fairlead schedule --cluster {CLUSTER} --workloads {WORKLOADS} > /dev/full",
        "fairlead docs schedule > /dev/full",
        "fairlead serve agent --once > /dev/full",
    ],
)
def test_output_that_cannot_be_written_ends_with_74(tmp_path: Path, command: str) -> None:
    done = shell(command, tmp_path)
    assert done.returncode == 74
    assert done.stderr == "fairlead: the answer cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    "command",
    [f"fairlead simulate {DAY} --plot /dev/full", "fairlead catalog list > /dev/full 2> /dev/full"],
)
def test_a_full_device_ends_with_74(tmp_path: Path, command: str) -> None:
    done = shell(command, tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (74, False)


@pytest.mark.parametrize(
    "command",
    [f"fairlead simulate {DAY} --plot out/x.svg", "fairlead manifests agent --out out"],
)
def test_a_full_disk_leaves_no_partial_file(tmp_path: Path, command: str) -> None:
    (tmp_path / "out").mkdir()
    done = shell(f"ulimit -f 1; {command}", tmp_path)
    assert done.returncode == 74, done.stderr
    line, hint = done.stderr.splitlines()[-2:]
    assert "cannot be written: File too large" in line
    assert hint.startswith("  make room on that disk")
    assert not [each for each in (tmp_path / "out").rglob("*") if each.is_file()]


def test_a_model_of_the_zoo_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    line = f"ulimit -f 1; {sys.executable} -m fairlead.zoo . mobilenet_v2"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, os.listdir(tmp_path)) == (74, [])
    assert done.stderr.startswith("fairlead.zoo: ./mobilenet_v2.onnx: cannot be written: File too large")


def test_a_file_is_renamed_into_place_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(0o600)
    os.symlink("x", tmp_path / "link")
    with atomic_write(str(tmp_path / "link"), text=True) as out:
        out.write("new")
        out.flush()
        assert path.read_text() == "old"
    assert path.read_text() == (tmp_path / "link").read_text() == "new"
    assert (path.stat().st_mode & 0o777, os.path.islink(tmp_path / "link")) == (0o600, True)
    with pytest.raises(TypeError), atomic_write(str(path)) as out:
        out.writelines([b"half", None])
    assert path.read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["link", "x"]


@pytest.mark.parametrize("redirected", ["| cat", "> file; cat file"])
def test_a_file_may_be_the_standard_output(tmp_path: Path, redirected: str) -> None:
    code = (
        'from fairlead.outfile import atomic_write\nwith atomic_write("/dev/stdout") as out: out.write(b"x")'
    )
    line = f"{sys.executable} -c {shlex.quote(code)}"
    done = subprocess.run(
        ["bash", "-c", f"{line} {redirected}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("x", "")


def test_a_full_disk_and_a_wrong_path_are_different_errors(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No space left on device"), atomic_write("/dev/full") as out:
        out.write(b"x")
    with pytest.raises(FileNotFoundError), atomic_write(str(tmp_path / "no/x")):
        pass
    with pytest.raises(IsADirectoryError):
        check_writable(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        check_writable(str(tmp_path / "no/x"))
    check_writable(str(tmp_path / "x"))
    check_writable("/dev/full")
    assert os.listdir(tmp_path) == []
