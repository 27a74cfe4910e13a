"""Before the agent starts: its folders, stale sockets and copies; and files that an attacker left there."""

import os
import socket
import stat
from pathlib import Path

import pytest

from fairlead.errors import UserError
from fairlead.warden.prepare import COPY_LIMIT, FileCopy, copy, open_folder, parse_copy

GROUP = 10001 if os.geteuid() == 0 else os.getegid()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "plugins"
    place.mkdir()
    return place


@pytest.fixture
def lines() -> list[str]:
    return []


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


def test_a_folder_gets_its_group_at_every_start(folder: Path) -> None:
    for _ in range(3):
        open_folder(str(folder), GROUP)
        found = folder.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o770, GROUP)


def test_stale_sockets_are_removed_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    bound(folder / "dra.sock")
    bound(folder / "other")
    (folder / "file.sock").write_text("")
    (folder / "folder.sock").mkdir()
    bound(tmp_path / "kubelet.sock")
    (folder / "link.sock").symlink_to(tmp_path / "kubelet.sock")
    os.mkfifo(folder / "pipe.sock")
    open_folder(str(folder), GROUP)
    assert sorted(os.listdir(folder)) == ["file.sock", "folder.sock", "link.sock", "other", "pipe.sock"]
    assert (tmp_path / "kubelet.sock").is_socket()


def test_a_path_that_is_not_a_folder_is_refused_and_its_target_left_alone(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "file").write_text("")
    before = (folder.stat().st_mode, folder.stat().st_gid)
    for name, why in [("link", "a link to one"), ("file", "not a folder"), ("nowhere", "no such file")]:
        with pytest.raises(UserError, match=why) as caught:
            open_folder(str(tmp_path / name), GROUP)
        assert str(tmp_path / name) in str(caught.value)
    assert (folder.stat().st_mode, folder.stat().st_gid) == before


@pytest.mark.parametrize(
    ("target", "lands"), [("board/etc/release", "board/etc/release"), ("board/etc/", "board/etc/source")]
)
def test_a_file_is_copied_to_a_file_or_into_a_folder(
    tmp_path: Path, lines: list[str], target: str, lands: str
) -> None:
    source = tmp_path / "source"
    source.write_text("R36")
    source.chmod(0o600)
    for text in ("R36", "R37"):
        source.write_text(text)
        copy(FileCopy(str(source), f"{tmp_path}/{target}"), lines.append)
        assert (tmp_path / lands).read_text() == text
    assert stat.S_IMODE((tmp_path / lands).stat().st_mode) == 0o644
    assert lines == []


def test_a_missing_file_is_skipped_silently(tmp_path: Path, lines: list[str]) -> None:
    copy(FileCopy(f"{tmp_path}/nowhere", f"{tmp_path}/to/"), lines.append)
    (tmp_path / "file").write_text("")
    copy(FileCopy(f"{tmp_path}/file/below", f"{tmp_path}/to/"), lines.append)
    assert (lines, os.listdir(tmp_path)) == ([], ["file"])


def test_only_small_regular_files_are_copied(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * (COPY_LIMIT + 1))
    (tmp_path / "full").write_bytes(b"x" * COPY_LIMIT)
    for source in (tmp_path / "link", tmp_path / "pipe", tmp_path / "large", Path("/dev/zero")):
        copy(FileCopy(str(source), f"{tmp_path}/to/"), lines.append)
    assert [sock.partition(": ")[2] for sock in lines] == [
        "not copied: not a regular file",
        "not copied: not a regular file",
        "not copied: longer than 65536 bytes",
        "not copied: not a regular file",
    ]
    copy(FileCopy(f"{tmp_path}/full", f"{tmp_path}/to/"), lines.append)
    assert os.listdir(tmp_path / "to") == ["full"]


@pytest.mark.parametrize(
    "target", ["nvpmodel/orin.conf", "/etc/nvpmodel/orin.conf", "{host}/etc/nvpmodel/orin.conf"]
)
def test_a_link_below_its_own_folder_is_copied(tmp_path: Path, lines: list[str], target: str) -> None:
    """The host's /etc is mounted below another folder here, so that absolute links have a wrong target."""
    (tmp_path / "host/etc/nvpmodel").mkdir(parents=True)
    (tmp_path / "host/etc/nvpmodel/orin.conf").write_text("MAXN")
    (tmp_path / "host/etc/nvpmodel.conf").symlink_to(target.format(host=tmp_path / "host"))
    copy(FileCopy(f"{tmp_path}/host/etc/nvpmodel.conf", f"{tmp_path}/to/"), lines.append)
    assert (lines, (tmp_path / "to/nvpmodel.conf").read_text()) == ([], "MAXN")


@pytest.mark.parametrize(
    "target",
    [
        "../secret",
        "/secret",
        "{host}/secret",
        "/etc/../secret",
        "/etc",
        "/etc/",
        ".",
        "loop",
        "second",
        "out/secret",
        "/etc/out/secret",
        "pipe",
        "nowhere",
    ],
)
def test_no_other_link_is_copied(tmp_path: Path, lines: list[str], target: str) -> None:
    (tmp_path / "host/etc").mkdir(parents=True)
    (tmp_path / "host/secret").write_text("secret")
    (tmp_path / "host/etc/second").symlink_to("third")
    (tmp_path / "host/etc/third").write_text("twice linked")
    (tmp_path / "host/etc/out").symlink_to("..")
    os.mkfifo(tmp_path / "host/etc/pipe")
    (tmp_path / "host/etc/loop").symlink_to(target.format(host=tmp_path / "host"))
    copy(FileCopy(f"{tmp_path}/host/etc/loop", f"{tmp_path}/to/"), lines.append)
    assert not (tmp_path / "to").exists()
    assert len(lines) == (target != "nowhere")


def test_a_link_in_the_copy_s_place_is_replaced_and_not_followed(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "source").write_text("new")
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "to").mkdir()
    (tmp_path / "to/source").symlink_to("../victim")
    copy(FileCopy(f"{tmp_path}/source", f"{tmp_path}/to/"), lines.append)
    assert (tmp_path / "victim").read_text() == "mine"
    assert (tmp_path / "to/source").read_text() == "new"


@pytest.mark.parametrize("target", ["out/", "out/deeper/file", "in/out/file"])
def test_no_copy_leaves_its_folder_by_a_link(tmp_path: Path, lines: list[str], target: str) -> None:
    (tmp_path / "source").write_text("evil")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "to/in").mkdir(parents=True)
    (tmp_path / "to/out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "to/in/out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="a link to one"):
        copy(FileCopy(f"{tmp_path}/source", f"{tmp_path}/to/{target}"), lines.append)
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_folder_in_the_copy_s_place_is_an_error(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "source").write_text("new")
    (tmp_path / "to/source").mkdir(parents=True)
    with pytest.raises(UserError, match="cannot be written: Is a directory"):
        copy(FileCopy(f"{tmp_path}/source", f"{tmp_path}/to/"), lines.append)
    assert os.listdir(tmp_path / "to") == ["source"]


@pytest.mark.parametrize("text", ["", "/a", "/a:", ":/b", "a:/b", "/a:b"])
def test_a_copy_names_two_absolute_paths(text: str) -> None:
    with pytest.raises(UserError, match="two absolute paths"):
        parse_copy(text)


def test_a_copy_is_read_as_it_is_written() -> None:
    assert parse_copy("/etc/x:/run/y/") == FileCopy("/etc/x", "/run/y/")
