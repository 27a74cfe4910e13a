"""Files in places where other processes write: no link is followed, no file is half written."""

import os
import stat
from pathlib import Path

import pytest

from fairlead.errors import UserError
from fairlead.warden import folders


def test_a_file_is_written_and_replaced_atomically(tmp_path: Path) -> None:
    with folders.folder(str(tmp_path)) as place:
        folders.write(place, "a", b"one")
        folders.write(place, "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_in_a_file_s_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").symlink_to("../victim")
    with folders.folder(str(tmp_path / "in")) as place:
        folders.write(place, "a", b"new")
    assert (tmp_path / "victim").read_text() == "mine"
    assert (tmp_path / "in/a").read_bytes() == b"new"
    assert not (tmp_path / "in/a").is_symlink()


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with folders.folder(str(tmp_path)) as place, pytest.raises(IsADirectoryError):
        folders.write(place, "a", b"new")
    assert os.listdir(tmp_path) == ["a"]


def test_temporary_files_of_a_killed_writer_are_removed_and_nothing_else(tmp_path: Path) -> None:
    others = [".fairlead-xyz.tmp", ".hidden", "x.json", ".fairlead-0123456789abcdef.tmp.json"]
    for name in (".fairlead-0123456789abcdef.tmp", *others):
        (tmp_path / name).write_text("")
    with folders.folder(str(tmp_path)) as place:
        folders.sweep(place)
    assert sorted(os.listdir(tmp_path)) == sorted(others)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x" * 100)
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    assert folders.read(str(tmp_path / "file"), 10) == b"x" * 11
    assert folders.read(str(tmp_path / "file"), 100) == b"x" * 100
    assert folders.read(str(tmp_path / "link"), 10) is None
    assert folders.read(str(tmp_path / "pipe"), 10) is None
    assert folders.read(str(tmp_path), 10) is None
    assert folders.read("/dev/zero", 10) is None


def test_a_folder_that_is_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "real/in").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError, match="Not a directory"), folders.folder(str(tmp_path / "link")):
        pass
    for path in (tmp_path / "link", tmp_path / "link/in"):
        with pytest.raises(UserError, match=r"a link to one \(link\)"), folders.real_folder(str(path)):
            pass
        with pytest.raises(UserError, match="not a folder"), folders.real_folder(str(path), make=True):
            pass


def test_missing_folders_are_created_only_with_make(tmp_path: Path) -> None:
    path = str(tmp_path / "a/b")
    with pytest.raises(UserError, match=r"no such file or directory \(a\)"), folders.real_folder(path):
        pass
    with folders.real_folder(path, make=True) as place:
        folders.write(place, "c", b"")
    assert (tmp_path / "a/b/c").exists()


@pytest.mark.parametrize("path", ["relative", "/tmp/../etc", "/tmp/./x", "", "../x"])
def test_a_path_must_be_absolute_and_without_dots(path: str) -> None:
    with pytest.raises(UserError, match="must be absolute"), folders.real_folder(path):
        pass


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with folders.real_folder(str(tmp_path / "x/y"), make=True) as place:
            folders.write(place, "a", b"")
        with pytest.raises(UserError), folders.real_folder(str(tmp_path / "x/y/a/b")):
            pass
    assert len(os.listdir("/proc/self/fd")) == before
