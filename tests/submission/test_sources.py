"""Inputs below a folder, in a list, and as they appear."""

import os
import socket
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from fairlead.errors import JobError
from fairlead.submission.follow import FolderFollower
from fairlead.submission.sources import Found, InputFile, UnusableInput, below_folder, from_lines

Step = Callable[[Path], object]


def _paths(found: "list[Found]") -> list[str]:
    return sorted(each.path for each in found)


def _write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_the_files_below_a_folder_are_its_inputs(tmp_path: Path) -> None:
    _write(tmp_path, "a.jpg", "deep/er/b.jpg", "deep/.part", ".hidden/c.jpg")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.jpg").symlink_to(tmp_path / "a.jpg")
    (tmp_path / "around").symlink_to(tmp_path)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    found = list(below_folder(str(tmp_path)))
    assert _paths(found) == ["a.jpg", "deep/er/b.jpg", "link.jpg"]
    assert all(isinstance(each, InputFile) and each.file == str(tmp_path / each.path) for each in found)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no such folder"):
        list(below_folder(str(tmp_path / "gone")))


def test_a_folder_is_not_listed_in_memory(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number:0100d}").touch()
    tracemalloc.start()
    assert sum(1 for _ in below_folder(str(tmp_path))) == 3000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000  # the names alone have 300,000 bytes


def test_a_list_names_files_below_its_base(tmp_path: Path) -> None:
    _write(tmp_path, "in/a", "in/b c", "out/d")
    lines = ["a\n", "\n", "./b c\r\n", f"{tmp_path}/in/a\n", "../out/d\n", "gone\n", ".\n", "a\0b"]
    found = list(from_lines(lines, str(tmp_path / "in")))
    assert [each.path for each in found if isinstance(each, InputFile)] == ["a", "b c", "a"]
    faults = {each.path: each.reason for each in found if isinstance(each, UnusableInput)}
    assert "--base" in faults["../out/d"]
    assert faults["gone"] == "No such file or directory"
    assert len(faults) == 4


@pytest.mark.parametrize(
    ("name", "why"),
    [(b"bad\xff", "no UTF-8"), (b"a\nb", "cannot be printed")],
    ids=["bytes", "newline"],
)
def test_a_name_that_no_store_takes_is_named(tmp_path: Path, name: bytes, why: str) -> None:
    (tmp_path / os.fsdecode(name)).touch()
    (found,) = below_folder(str(tmp_path))
    assert isinstance(found, UnusableInput)
    assert why in found.reason
    assert found.path.isprintable()


@pytest.mark.parametrize(
    ("step", "path"),
    [
        (lambda root: _write(root, "new"), "new"),
        (lambda root: os.rename(root.parent / "elsewhere", root / "moved"), "moved"),
        (lambda root: _write(root, "a/b/c/new"), "a/b/c/new"),
        (lambda root: _write(root, "old/new"), "old/new"),
        (lambda root: os.rename(root.parent / "folder", root / "folder"), "folder/inside"),
    ],
    ids=["written", "moved", "new folders", "old folder", "moved folder"],
)
def test_what_appears_is_an_input(tmp_path: Path, step: Step, path: str) -> None:
    root = tmp_path / "root"
    _write(root, "first", "old/first")
    _write(tmp_path, "elsewhere", "folder/inside")
    stop, stopper = socket.socketpair()
    with stop, stopper:
        found = iter(FolderFollower(str(root), stop.fileno()))
        listed = list(islice(found, 2))
        assert _paths([each for each in listed if each]) == ["first", "old/first"]
        assert next(found) is None
        (root / ".part").write_text("not whole")
        step(root)
        seen = next(each for each in found if each is not None)
        assert seen.path == path
        stopper.send(b"x")
        assert [each for each in found if each is not None and each.path != path] == []


def test_an_open_file_is_no_input_before_it_is_closed(tmp_path: Path) -> None:
    stop, stopper = socket.socketpair()
    with stop, stopper:
        found = iter(FolderFollower(str(tmp_path), stop.fileno()))
        assert next(found) is None
        with (tmp_path / "growing").open("w") as growing:
            growing.write("half")
            growing.flush()
            assert next(found) is None
        assert next(found) == InputFile("growing", str(tmp_path / "growing"))


def test_a_folder_to_follow_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no such folder"):
        next(iter(FolderFollower(str(tmp_path / "gone"), 0)))
