"""Processes on a replayed GPU: a library of the test reports real pids, with memory that tests decide."""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.install import Site
from tests.test_nvml import built

GPU = "pci-0000-3b-00-0"
"""The accelerator of the replayed machine."""
HOST = "server-t4"


class ReportedProcesses:
    """The processes that the driver of a replayed machine reports."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listed = site.machine.folder / "fairlead" / "processes"

    def install(self, folder: Path) -> None:
        """Replay a machine with one GPU, on which no process runs yet."""

        def with_library(root: Path) -> None:
            (root / "fairlead").mkdir()
            library = Path(built(folder, f'-DPROCESSES="{self._listed}"'))
            (root / "fairlead" / "libnvidia-ml.so.1").write_bytes(library.read_bytes())
            (root / "fairlead" / "processes").touch()

        self._site.replay(HOST, with_library)

    def write(self, memory: Mapping[int, int], percent: int = 40) -> None:
        """Let processes hold memory, by their pids in the node."""
        lines = "".join(f"{pid} {size} {percent}\n" for pid, size in memory.items())
        new = self._listed.with_suffix(".new")
        new.write_text(lines, encoding="ascii")
        new.rename(self._listed)  # the library never reads half a list

    def pids(self, namespace: str) -> dict[str, int]:
        """Return the pids in the node's pid namespace of the shells of a namespace's pods, by pod."""
        depth = len(_namespaced_pids(self._site.lab.lab.namespaces[0].init.pid))
        pids = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
                named = Path("/proc", pid, "environ").read_bytes().split(b"\0")
                inside = _namespaced_pids(int(pid))
            except (OSError, StopIteration):
                continue
            prefix = f"TEST_POD={namespace}/".encode()
            pods = [text.removeprefix(prefix).decode() for text in named if text.startswith(prefix)]
            if words[0] == b"sh" and pods:
                pids[pods[0]] = inside[depth - 1]
        return pids


def _namespaced_pids(pid: int) -> list[int]:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    line = next(line for line in status.splitlines() if line.startswith("NSpid:"))
    return [int(word) for word in line.split()[1:]]
