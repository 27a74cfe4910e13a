"""Control groups of v1 and v2; a lab removes its own and no others."""

from pathlib import Path

import pytest

from fairlead.cores import usable_cores
from fairlead.lab.node import cgroups


def test_a_unified_hierarchy_delegates_its_controllers(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory cpuset\n")
    cgroups.create("fairlead-x-1", tmp_path)
    assert (tmp_path / "fairlead-x-1").is_dir()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+pids"  # the kernel's file would add it
    assert cgroups.hierarchies(tmp_path) == [tmp_path]


def test_every_v1_hierarchy_gets_a_group_and_links_are_skipped(tmp_path: Path) -> None:
    for name in ("cpu,cpuacct", "cpuset"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text("")
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    assert [hierarchy.name for hierarchy in cgroups.hierarchies(tmp_path)] == ["cpu,cpuacct", "cpuset"]
    cgroups.create("fairlead-x-1", tmp_path)
    assert (tmp_path / "cpuset" / "fairlead-x-1").is_dir()


@pytest.mark.parametrize(("setting", "of_one"), [("cpu.shares", 1024), ("cpu.weight", 100)])
def test_the_pods_of_a_node_weigh_as_much_as_a_process_on_each_core(
    tmp_path: Path, setting: str, of_one: int
) -> None:
    group = tmp_path / "cpu" / "fairlead-x-1"
    group.mkdir(parents=True)
    (tmp_path / "cpu" / "cgroup.procs").write_text("")
    (group / setting).write_text(str(of_one))
    cgroups.create("fairlead-x-1", tmp_path)
    assert int((group / setting).read_text()) == of_one * usable_cores()


def test_a_lab_removes_its_own_groups_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("")
    (tmp_path / "cgroup.subtree_control").write_text("")
    mine, other = (f"{cgroups.name_prefix(Path(name))}1" for name in ("/labs/a", "/labs/b"))
    for name in (mine, other, "user.slice"):
        cgroups.create(name, tmp_path)
    (tmp_path / mine / "kubepods" / "pod1").mkdir(parents=True)
    assert cgroups.remove(Path("/labs/a"), tmp_path) == []
    assert not (tmp_path / mine).exists()
    assert (tmp_path / other).is_dir()
    assert (tmp_path / "user.slice").is_dir()


def test_a_group_that_cannot_be_removed_is_returned(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("")
    (tmp_path / "cgroup.subtree_control").write_text("")
    group = f"{cgroups.name_prefix(Path('/labs/a'))}1"
    cgroups.create(group, tmp_path)
    (tmp_path / group / "busy").write_text("")  # like a process in the group, this prevents its removal
    assert cgroups.remove(Path("/labs/a"), tmp_path, patience=0.1) == [tmp_path / group]


def test_a_machine_without_cgroups_has_no_hierarchies(tmp_path: Path) -> None:
    assert cgroups.hierarchies(tmp_path / "none") == []


@pytest.mark.parametrize("folder", ["/a", "/a b", "/ü"])
def test_a_prefix_is_ascii(folder: str) -> None:
    assert cgroups.name_prefix(Path(folder)).isascii()
