"""Errors: an exit code, a line with the fault and its place, a line with the fix."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds import World, crowded

FAIRLEAD = os.path.join(os.path.dirname(sys.executable), "fairlead")


def shell(command: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `fairlead` is the program."""
    line = command.replace("fairlead", shlex.quote(FAIRLEAD), 1)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "code", "message", "hint"),
    [
        (
            "fairlead detect --root nowhere",
            2,
            "fairlead: nowhere: no such folder or tarball",
            "name a root folder or a tarball",
        ),
        (
            "fairlead detect --root plain.txt",
            2,
            "fairlead: plain.txt: not a readable tarball",
            "is it a fairlead capture?",
        ),
        ("fairlead detect --root ''", 2, "fairlead: : no such folder or tarball", "name a root folder"),
        ("fairlead detect --root pipe", 2, "fairlead: pipe: no such folder or tarball", "name a root folder"),
        (
            "fairlead detect --catalog bad.toml",
            2,
            "fairlead: bad.toml: device[0] (x): name is missing",
            "add name = a string",
        ),
        (
            "fairlead detect --catalog plain.txt",
            2,
            "fairlead: plain.txt: not TOML",
            "see: fairlead catalog show",
        ),
        (
            "fairlead detect --catalog gone.toml",
            2,
            "fairlead: gone.toml: No such file or directory",
            "name a readable TOML file",
        ),
        (
            "fairlead catalog show jetson-nanoo",
            2,
            "fairlead: no device 'jetson-nanoo' in the catalog",
            "did you mean jetson-nano",
        ),
        (
            "fairlead catalog show jetson",
            2,
            "fairlead: 'jetson' is a group of 11 devices of the catalog",
            "name one: jetson-tk1, ",
        ),
        (
            "fairlead catalog list --kind toaster",
            2,
            "fairlead: --kind toaster: no such kind",
            "known: cpu, gpu, tpu, npu, vpu, dsp, fpga",
        ),
        (
            "fairlead catalog show %%%%",
            2,
            "fairlead: no device '%%%%' in the catalog",
            "see: fairlead catalog list",
        ),
        (
            "fairlead capture missing/x.tar.gz --root machine",
            2,
            "fairlead: missing/x.tar.gz: No such file or directory",
            "name a file in a folder",
        ),
        (
            "fairlead capture folder --root machine",
            2,
            "fairlead: folder: Is a directory",
            "name a file in a folder",
        ),
        (
            "fairlead capture x.tar.gz --root nowhere",
            2,
            "fairlead: nowhere: no such folder or tarball",
            "name a root folder",
        ),
    ],
)
def test_a_user_error_names_the_fault_and_the_fix(
    tmp_path: Path, command: str, code: int, message: str, hint: str
) -> None:
    (tmp_path / "plain.txt").write_text("just text")
    (tmp_path / "bad.toml").write_text('schema = 1\n[[device]]\nid = "x"\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "machine" / "proc" / "1").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    done = shell(command, tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(message)
    assert second.startswith(f"  {hint}")
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fairlead", "the following arguments are required: COMMAND"),
        ("fairlead juggle", "fairlead: error: no command 'juggle': see fairlead --help\n"),
        ("fairlead detec", "fairlead: error: no command 'detec': did you mean detect?\n"),
        ("fairlead lab upp", "fairlead lab: error: no verb 'upp': did you mean up?\n"),
        ("fairlead serve schedular", "serve: error: no program 'schedular': did you mean scheduler?\n"),
        ("fairlead sim", "no command 'sim': did you mean simulate?\n"),
        ("fairlead detect -o xml", "argument -o/--output: invalid choice: 'xml'"),
        ("fairlead detect --rot /", "unrecognized arguments: --rot"),
        ("fairlead catalog", "the following arguments are required: VERB"),
        ("fairlead catalog list -o labels", "argument -o/--output: invalid choice: 'labels'"),
        ("fairlead catalog show", "the following arguments are required: DEVICE"),
        ("fairlead capture", "the following arguments are required: FILE"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_the_usage(tmp_path: Path, command: str, message: str) -> None:
    done = shell(command, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.startswith("usage: fairlead")


def test_a_full_disk_leaves_no_partial_tarball(world: World, tmp_path: Path) -> None:
    root = world(crowded()).root
    (tmp_path / "out").mkdir()
    done = shell(f"ulimit -f 0; fairlead capture out/x.tar.gz --root {root}", tmp_path)
    assert done.returncode == 74
    assert done.stderr.startswith("fairlead: out/x.tar.gz: cannot be written: File too large")
    assert os.listdir(tmp_path / "out") == []


def test_an_old_tarball_survives_a_new_one_that_fails(world: World, tmp_path: Path) -> None:
    root = world(crowded()).root
    (tmp_path / "x.tar.gz").write_text("old")
    shell(f"ulimit -f 0; fairlead capture x.tar.gz --root {root}", tmp_path)
    assert (tmp_path / "x.tar.gz").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["root", "x.tar.gz"]


@pytest.mark.parametrize(
    "command",
    ["fairlead catalog list -o json | head -1", "fairlead catalog list | true", "fairlead catalog list >&-"],
)
def test_a_closed_pipe_is_no_error(tmp_path: Path, command: str) -> None:
    done = shell(command, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("output", ["table", "json", "yaml", "labels"])
def test_a_terminal_without_unicode_gets_escaped_output(world: World, tmp_path: Path, output: str) -> None:
    files = {"/proc/cpuinfo": "processor: 0\nmodel name: Größe \U0001f4a3\nflags: lm\n"}
    done = shell(
        f"fairlead detect --root {world(files).root} -o {output}", tmp_path, PYTHONIOENCODING="ascii"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_environment_may_name_a_catalog(tmp_path: Path) -> None:
    done = shell("fairlead catalog list", tmp_path, FAIRLEAD_CATALOG="gone.toml")
    assert done.returncode == 2
    assert done.stderr.startswith("fairlead: gone.toml: No such file")
