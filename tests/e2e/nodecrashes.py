"""A whole node that loses its power, and starts again: its programs, its pods and what they had mounted."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from fairlead.lab.node import cgroups, inside
from fairlead.lab.run import health, home, process, ready
from fairlead.lab.run.process import Process
from fairlead.lab.run.restart import LIMIT, find_program
from fairlead.lab.run.starting import StartingLab
from fairlead.lab.run.state import Lab, LabProgram
from tests.labs import RealNode

PROGRAMS = ("containerd", "kube-proxy", "volumes", "kubelet")
"""What runs on the node beside its pods, in the order of its start. The control plane stays."""
_SHIM = "containerd-shim"
_UNMOUNT = (
    r"cut -d' ' -f2 /proc/mounts | grep -E '^%s/(pods|plugins/kubernetes[.]io)/' | sort -r |"
    ' while read -r place; do umount "$place" || exit 1; done'
)


@contextmanager
def node_down(node: RealNode) -> Iterator[int]:
    """Kill everything that runs on the node, for the length of the block; then start its programs again.

    Yields how many processes of pods were killed. Nothing is mounted for pods when it starts.
    """
    with home.hold_lock(node.lab.folder) as acquired:
        assert acquired, "the lab is being changed"
        lab = node.lab
        programs = [find_program(lab, name) for name in PROGRAMS]
        assert not process.kill(program.process for program in reversed(programs))
        killed = _kill_pods(lab)
        done = inside.run(lab.namespaces[0], ["sh", "-c", _UNMOUNT % lab.layout.kubelet])
        assert done.returncode == 0, done.stderr
        try:
            yield killed
        finally:
            _start(StartingLab(lab, lab.environ), programs)


def _start(running: StartingLab, programs: Sequence[LabProgram]) -> None:
    """Start programs: containerd first, for a kubelet without it ends, and is not started again here."""
    first, *others = programs
    for group in ([first], others):
        since = time.time()
        for program in [running.restart(program) for program in group]:
            ready.wait_healthy(partial(_is_healthy, running, program, since), program, lambda: None, LIMIT)


def _is_healthy(running: StartingLab, program: LabProgram, since: float) -> bool:
    return health.is_healthy(running.lab, program, since)


def _kill_pods(lab: Lab) -> int:
    """Kill the shims of containers, then all that runs in the node's control groups; return how many did."""
    assert not process.kill([each for each in process.processes_of_lab(lab.folder) if _is_shim(each)])
    group, killed = f"{cgroups.name_prefix(lab.folder)}1", 0
    while found := [each for pid in process.pids() if (each := process.find(pid)) and _is_in(each, group)]:
        assert not process.kill(found)
        killed += len(found)
    return killed


def _is_shim(each: Process) -> bool:
    return _SHIM in _read(each, "cmdline")


def _is_in(each: Process, group: str) -> bool:
    return f"/{group}/" in _read(each, "cgroup")


def _read(each: Process, name: str) -> str:
    try:
        return Path("/proc", str(each.pid), name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
