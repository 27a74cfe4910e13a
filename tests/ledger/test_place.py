"""The state directory: where it is, which modes it gets, and which folders are refused."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.errors import LedgerError
from fairlead.ledger.place import DEFAULT_STATE, StateDirectory, state_path
from tests.ledger.jobs import as_user, in_child, mount, needs_root


@pytest.fixture
def shared() -> Iterator[Path]:
    """Yield a folder that every user can reach; pytest's own are for one user."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def mode(path: str | Path) -> int:
    """Return the permissions of a path."""
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_folders_have_their_modes_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    def make() -> None:
        path = tmp_path / "state"
        os.umask(umask)
        place = StateDirectory.open({"FAIRLEAD_STATE": str(path)})
        assert os.umask(0) == umask
        modes = [mode(each) for each in (place.path, place.own, place.jobs, place.private)]
        assert modes == [0o1777, 0o755, 0o755, 0o700]
        assert place.own == str(path / f"u{os.geteuid()}")
        assert StateDirectory.open({"FAIRLEAD_STATE": str(path)}) == place

    assert not in_child(make)


def test_the_state_directory_is_the_stated_one_then_the_systems_then_the_default(tmp_path: Path) -> None:
    system = tmp_path / "system"
    assert state_path({"FAIRLEAD_STATE": "/x"}, str(system)) == "/x"
    assert state_path({"FAIRLEAD_STATE": ""}, str(system)) == DEFAULT_STATE
    system.mkdir()
    assert state_path({}, str(system)) == str(system)
    assert os.path.isabs(state_path({"FAIRLEAD_STATE": "relative"}))


def test_missing_parents_are_made(tmp_path: Path) -> None:
    assert os.path.isdir(StateDirectory.at(str(tmp_path / "a/b/state")).private)


def refusal(path: Path) -> str:
    """Return why a directory is refused; the hint names the setting."""
    with pytest.raises(LedgerError) as refused:
        StateDirectory.at(str(path))
    assert "FAIRLEAD_STATE" in refused.value.hint
    return str(refused.value)


def test_links_and_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("")
    assert refusal(tmp_path / "link") == f"{tmp_path}/link: a symbolic link instead of a directory"
    assert refusal(tmp_path / "file") == f"{tmp_path}/file: not a directory"
    assert "Not a directory" in refusal(tmp_path / "file" / "state")


@pytest.mark.parametrize("name", ["", "jobs", "private"])
def test_links_inside_are_refused(tmp_path: Path, name: str) -> None:
    place = StateDirectory.at(str(tmp_path / "state"))
    target = os.path.join(place.own, name).rstrip("/")
    os.rename(target, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", target)
    assert refusal(tmp_path / "state") == f"{target}: a symbolic link instead of a directory"


@pytest.mark.parametrize(
    ("bits", "refused"), [(0o777, True), (0o775, True), (0o1777, False), (0o755, False), (0o700, False)]
)
def test_a_directory_that_others_can_write_to_must_be_sticky(
    tmp_path: Path, bits: int, refused: bool
) -> None:
    path = tmp_path / "state"
    path.mkdir()
    path.chmod(bits)
    if refused:
        assert "not sticky" in refusal(path)
    else:
        assert StateDirectory.at(str(path)).path == str(path)


def test_folders_with_other_modes_are_corrected(tmp_path: Path) -> None:
    place = StateDirectory.at(str(tmp_path / "state"))
    os.chmod(place.private, 0o755)
    os.chmod(place.jobs, 0o700)
    StateDirectory.at(place.path)
    assert (mode(place.private), mode(place.jobs)) == (0o700, 0o755)


@needs_root
def test_root_makes_no_folder_for_another_user_and_writes_none_of_its_records(shared: Path) -> None:
    path = str(shared / "state")
    StateDirectory.at(path)
    with pytest.raises(LedgerError, match="user 64001 has no jobs here"):
        StateDirectory.at(path, 64001)
    assert not os.path.exists(f"{path}/u64001")
    assert not as_user(64001, lambda: StateDirectory.at(path))
    assert StateDirectory.at(path, 64001).uid == 64001
    assert {os.lstat(f"{path}/u64001{each}").st_uid for each in ("", "/jobs", "/private")} == {64001}


@needs_root
def test_a_folder_of_another_user_is_refused(shared: Path) -> None:
    path = shared / "state"
    StateDirectory.at(str(path))
    assert not as_user(64002, lambda: os.mkdir(path / "u64001"))
    assert "it belongs to user 64002, not to user 64001" in as_user(
        64001, lambda: StateDirectory.at(str(path))
    )


@needs_root
def test_a_directory_that_cannot_be_written_is_named(shared: Path) -> None:
    (shared / "state").mkdir(mode=0o755)
    problem = as_user(64001, lambda: StateDirectory.at(str(shared / "state")))
    assert f"{shared}/state/u64001: Permission denied" in problem
    problem = as_user(64001, lambda: StateDirectory.at(str(shared / "other")))
    assert f"{shared}/other: Permission denied" in problem


@needs_root
def test_a_read_only_file_system_is_named(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()

    def try_it() -> None:
        mount("tmpfs", str(tmp_path / "disk"), "size=64k,ro")
        assert "Read-only file system" in refusal(tmp_path / "disk" / "state")

    problem = in_child(try_it)
    if "Operation not permitted" in problem:
        pytest.skip("no mount in this container")
    assert not problem, problem
