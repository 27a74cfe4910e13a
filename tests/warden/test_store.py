"""The CDI folder: our files are written and removed; other files are not touched."""

import hashlib
import json
import os
import stat
from pathlib import Path
from uuid import UUID

import pytest

from fairlead.errors import UserError
from fairlead.warden.devices import Devices
from fairlead.warden.spec import render
from fairlead.warden.store import COUNT_LIMIT, FILE_LIMIT, TOTAL_LIMIT, Store
from tests.warden.specs import ACCELERATORS, CLAIM, FILES, Spec, bent, claim, good


@pytest.fixture
def cdi(tmp_path: Path) -> Path:
    """Return a CDI folder that has files of other writers."""
    folder = tmp_path / "cdi"
    folder.mkdir()
    (folder / "nvidia.com-gpu.json").write_text("{}")
    (folder / "fairlead.dev-mine.json").write_text("{}")
    return folder


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def store(cdi: Path, tmp_path: Path, lines: list[str]) -> Store:
    return Store(str(cdi), Devices(str(tmp_path / "machine")), lines.append)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()


def numbered(number: int, padding: int = 0) -> tuple[str, Spec]:
    """Return the file of one claim among many, with a spec of about `padding` bytes."""
    file, spec = claim(str(UUID(int=number)))
    spec["devices"] = [
        {"name": f"a{i}", "containerEdits": {"env": [f"FAIRLEAD_X={'x' * 4000}"]}}
        for i in range(padding // 4000 + 1)
    ]
    return file, spec


def test_a_file_is_put_listed_and_removed(store: Store, cdi: Path, lines: list[str]) -> None:
    digest = hashlib.sha256(render(good())).hexdigest()
    assert store.put(ACCELERATORS, good()) == ({"sha256": digest, "changed": True}, "")
    assert store.put(ACCELERATORS, good()) == ({"sha256": digest, "changed": False}, "")
    assert json.loads((cdi / ACCELERATORS).read_text())["kind"] == "fairlead.dev/accelerator"
    assert stat.S_IMODE((cdi / ACCELERATORS).stat().st_mode) == 0o644
    assert store.names().fields == {"files": {ACCELERATORS: digest}}
    assert store.remove(ACCELERATORS).fields == {"removed": True}
    assert store.remove(ACCELERATORS).fields == {"removed": False}
    assert sorted(os.listdir(cdi)) == ["fairlead.dev-mine.json", "nvidia.com-gpu.json"]
    assert lines == [f"put {ACCELERATORS}: 2 devices", f"removed {ACCELERATORS}"]


def test_a_changed_spec_replaces_the_file(store: Store, cdi: Path) -> None:
    store.put(ACCELERATORS, good())
    assert store.put(ACCELERATORS, bent("devices.1.name", "another")).fields["changed"]
    assert "another" in (cdi / ACCELERATORS).read_text()


def test_a_refused_spec_changes_nothing(store: Store, cdi: Path) -> None:
    store.put(ACCELERATORS, good())
    before = (cdi / ACCELERATORS).read_bytes()
    fields, error = store.put(ACCELERATORS, bent("containerEdits", {}))
    assert (fields, error) == ({}, "containerEdits: not allowed")
    assert (cdi / ACCELERATORS).read_bytes() == before


@pytest.mark.parametrize("file", FILES)
def test_files_of_other_writers_cannot_be_changed(store: Store, cdi: Path, file: str) -> None:
    before = sorted(os.listdir(cdi))
    assert "not a file name of ours" in store.put(file, good()).error
    assert "not a file name of ours" in store.remove(file).error
    assert sorted(os.listdir(cdi)) == before


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_file_that_is_not_regular_is_left_alone(store: Store, cdi: Path, tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    place = cdi / ACCELERATORS
    if kind == "link":
        place.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    says = "another kind of file has this name; it is left alone"
    assert store.put(ACCELERATORS, good()).error == says
    assert store.remove(ACCELERATORS).error == says
    assert store.names().fields == {"files": {}}
    assert victim.read_text() == "mine"
    assert os.path.lexists(place)


def test_the_number_of_files_is_limited(store: Store, cdi: Path) -> None:
    for number in range(COUNT_LIMIT):
        (cdi / numbered(number)[0]).write_text("{}")
    file, spec = numbered(COUNT_LIMIT)
    assert store.put(file, spec).error == "there are 512 files already, at most 512"
    assert not store.put(*numbered(3)).error
    store.remove(numbered(0)[0])
    assert not store.put(file, spec).error


def test_the_total_size_is_limited(store: Store, cdi: Path) -> None:
    file, spec = numbered(0, FILE_LIMIT)
    assert "bytes are too many, at most 262144" in store.put(file, spec).error
    refused = [store.put(*numbered(number, FILE_LIMIT - 16_000)).error for number in range(20)]
    assert refused[0] == ""
    assert "all files together would exceed 4194304 bytes" in refused[-1]
    assert sum(path.stat().st_size for path in cdi.iterdir()) < TOTAL_LIMIT


def test_a_node_that_is_not_a_device_is_refused(store: Store, tmp_path: Path, cdi: Path) -> None:
    (tmp_path / "machine/dev").mkdir()
    (tmp_path / "machine/dev/apex_0").symlink_to("/dev/sda")
    says = "devices[0].containerEdits.deviceNodes[0].path: '/dev/apex_0': it is a link, not a device"
    assert store.put(ACCELERATORS, good()).error == says
    assert ACCELERATORS not in os.listdir(cdi)


def test_a_folder_that_cannot_be_used_is_a_user_error(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "link").symlink_to("cdi")
    for path in (tmp_path / "nowhere", tmp_path / "link"):
        with pytest.raises(UserError, match=path.name):
            Store(str(path), Devices(), lines.append)


def test_a_folder_that_reappears_is_used_again(store: Store, cdi: Path, tmp_path: Path) -> None:
    cdi.rename(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        store.names()
    cdi.mkdir()
    assert not store.put(CLAIM, claim()[1]).error
