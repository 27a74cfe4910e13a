"""The trees of processes, and what /proc shows of each."""

import os
from pathlib import Path

from fairlead.local.processes import children_of, descendants, process_name, process_tree, process_uid
from tests.worlds import World


def process(pid: int, parent: int) -> dict[str, str]:
    return {f"/proc/{pid}/stat": f"{pid} (a) b (c)) S {parent} 1 1 0 -1 0\n"}


def test_a_tree_has_the_descendants_and_nothing_else(world: World) -> None:
    rows = [(1, 0), (10, 1), (11, 10), (12, 11), (20, 1), (21, 20)]
    files = {path: text for pid, parent in rows for path, text in process(pid, parent).items()}
    root = world({**files, "/proc/99/stat": "broken", "/proc/uptime": "1"}).root
    children = children_of(root)
    assert dict(children) == {0: (1,), 1: (10, 20), 10: (11,), 11: (12,), 20: (21,)}
    assert descendants(10, children) == {10, 11, 12}
    assert descendants(5, {5: (6,), 6: (5,)}) == {5, 6}
    assert process_tree([11, 20], root) == {11, 12, 20, 21}
    assert children_of("/nowhere") == {}


def test_this_process_is_in_the_tree_of_its_parent() -> None:
    assert os.getpid() in process_tree([os.getppid()])
    assert (process_uid(os.getpid()), process_uid(2**22 + 1)) == (os.getuid(), None)
    assert process_name(os.getpid()) == Path("/proc/self/comm").read_text().strip()
