"""A /proc of the tests' own: processes with a start time and cgroups."""

from pathlib import Path

UID, OTHER = "0d1b6f2a-3c4e-4f5a-8b9c-001122334455", "11111111-3c4e-4f5a-8b9c-001122334455"
ID, SIDECAR = "c0ffee00" * 8, "ab" * 32
HOST = "0::/system.slice/display-manager.service\n"


def in_pod(uid: str = UID, container: str = ID) -> str:
    """Return the cgroups of a process in a pod."""
    return f"0::/kubepods/burstable/pod{uid}/{container}\n"


def start(proc: Path, pid: int, cgroup: str, ticks: int = 100, name: str = "python3") -> None:
    """Add a process, or replace it by another one with the same pid."""
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    rest = " ".join(["S", *("1" for _ in range(18)), str(ticks), *("0" for _ in range(30))])
    (folder / "stat").write_text(f"{pid} ({name}) {rest}\n", encoding="utf-8")
    (folder / "cgroup").write_text(cgroup, encoding="utf-8")
