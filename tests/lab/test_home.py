"""The folders of labs: names, locks, ports, and the state file."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.errors import LabError
from fairlead.lab.run import home
from fairlead.lab.run.home import LabHome
from fairlead.lab.run.process import Process
from fairlead.lab.run.state import Lab, LabPhase, LabProfile, LabProgram, NodeNamespaces, load, save


@pytest.fixture
def where(tmp_path: Path) -> LabHome:
    return LabHome(tmp_path / "fairlead" / "lab")


def make(where: LabHome, name: str = "one") -> Lab:
    folder = where.folder(name)
    folder.mkdir(parents=True)
    return save(Lab(name, LabProfile.API, folder, 1.5, ports={"kube-apiserver": 20001}, phase=LabPhase.READY))


def test_the_state_file_holds_the_whole_state(where: LabHome) -> None:
    lab = replace(
        make(where),
        owner=Process(1, 2),
        programs=(LabProgram("etcd", Process(3, 4), "/log"),),
        namespaces=(NodeNamespaces("node-1", "10.0.0.1", Process(5, 6)),),
        nodes=7,
        times={"keys": 0.5},
    )
    assert load(save(lab).folder) == lab
    assert where.get("one") == lab
    assert where.labs() == [lab]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 99}', '{"format": 1, "profile": "moon"}', "null"]
)
def test_a_folder_with_an_invalid_state_file_is_an_unused_lab(where: LabHome, text: str) -> None:
    make(where).file.write_text(text)
    assert where.labs() == []
    with home.hold_lock(where.folder("one")) as acquired:
        assert acquired
        assert home.is_unused(where.folder("one"))


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a" * 33, "../x", "a/b", "a b", "."])
def test_an_invalid_name_is_rejected(where: LabHome, name: str) -> None:
    with pytest.raises(LabError, match="cannot name a lab"):
        where.folder(name)


def test_an_unknown_lab_is_an_error_with_the_known_names(where: LabHome) -> None:
    with pytest.raises(LabError, match="no lab 'two'") as caught:
        where.get("two")
    assert "fairlead lab up" in caught.value.hint
    make(where)
    with pytest.raises(LabError, match="no lab 'two'") as caught:
        where.get("two")
    assert "one" in caught.value.hint


def test_one_process_at_a_time_holds_the_lock_of_a_lab(where: LabHome) -> None:
    folder = make(where).folder
    with home.hold_lock(folder) as first:
        assert first
        with home.hold_lock(folder) as second:
            assert not second
    with home.hold_lock(folder) as again:
        assert again
    with home.hold_lock(where.folder("none")) as none:
        assert not none


def test_a_lab_is_unused_once_its_owner_or_its_boot_is_gone(where: LabHome) -> None:
    lab = make(where)
    assert not home.is_unused(lab.folder)
    save(replace(lab, owner=Process(1, 2)))  # PID 1 runs, but started at another time
    assert home.is_unused(lab.folder)
    save(replace(lab, boot="an earlier one"))
    assert home.is_unused(lab.folder)
    assert replace(
        lab, boot="an earlier one", programs=(LabProgram("a", Process(1, 2), ""),)
    ).stopped_programs() == ["a"]
    save(replace(lab, phase=LabPhase.STARTING))
    assert home.is_unused(lab.folder)


def test_the_last_lab_takes_the_folder_of_all_labs_with_it(where: LabHome, tmp_path: Path) -> None:
    one, two = make(where, "one"), make(where, "two")
    home.remove(where, one.folder)
    assert where.labs() == [two]
    home.remove(where, two.folder)
    assert list(tmp_path.iterdir()) == []


def test_ports_are_free_and_not_those_of_other_labs() -> None:
    first = home.free_ports(["a", "b", "c"], [])
    assert len(set(first.values())) == 3
    taken = set(range(20_000, 32_000)) - {25_000}
    assert set(home.free_ports(["a"], taken).values()) <= {25_000}
    with pytest.raises(LabError, match="no free port"):
        home.free_ports(["a", "b"], taken)


def test_the_folder_follows_the_xdg_specification(tmp_path: Path) -> None:
    assert home.default({"XDG_STATE_HOME": str(tmp_path)}).root == tmp_path / "fairlead/lab"
    relative = home.default({"XDG_STATE_HOME": "here", "HOME": "/h"}).root
    assert relative == Path("/h/.local/state/fairlead/lab")


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(LabError, match="Not a directory"),
        home.hold_root_lock(LabHome(tmp_path / "file" / "lab")),
    ):
        pass


def test_the_state_file_is_one_json_document(where: LabHome) -> None:
    document = json.loads(make(where).file.read_text())
    assert document["format"] == 1
    assert document["ports"] == {"kube-apiserver": 20001}
