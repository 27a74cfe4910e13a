"""The privileges of the agent's pod, read from the node's kernel, not from the manifest."""

import os
from pathlib import Path

import pytest

from tests.e2e.api import wait_for
from tests.e2e.install import Site

AGENT = "10001"
WRITABLE = {
    "agent": {"/var/lib/kubelet/plugins/fairlead.dev", "/var/lib/kubelet/plugins_registry/fairlead.dev"},
    "warden": {"/run/fairlead", "/var/run/cdi", "/run/cdi"},
}
"""The writable mounts of a container, besides those of every container."""
EVERYWHERE = ("/proc", "/dev", "/sys/fs/cgroup", "/dev/", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname")


@pytest.fixture(scope="module")
def processes(installed: Site) -> dict[str, Path]:
    """Return the folder below /proc of each container's process."""
    if installed.customized:
        installed.install()
    return wait_for("the agent's processes", lambda: find(installed), installed.diagnostics)


@pytest.mark.parametrize(("container", "user"), [("agent", AGENT), ("warden", "0")])
def test_a_container_runs_as_its_user_without_any_capability(
    processes: dict[str, Path], container: str, user: str
) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in (processes[container] / "status").read_text(encoding="utf-8").splitlines()
        if ":\t" in line
    )
    assert status["Uid"].split() == [user] * 4
    assert status["Gid"].split() == [user] * 4
    assert set(status["Groups"].split()) <= {user, AGENT}
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0, kind
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


@pytest.mark.parametrize("container", ["agent", "warden"])
def test_a_container_has_no_other_writable_mounts(processes: dict[str, Path], container: str) -> None:
    mounts = (processes[container] / "mounts").read_text(encoding="utf-8").splitlines()
    rows = [line.split()[:4] for line in mounts]
    assert next(options for _, place, _, options in rows if place == "/").startswith("ro")
    writable = {
        place
        for _, place, kind, options in rows
        if options.split(",")[0] == "rw" and not place.startswith(EVERYWHERE) and kind != "proc"
    }
    assert writable <= WRITABLE[container], writable
    assert writable, "it has writable folders"
    has_token = any(place.endswith("kubernetes.io/serviceaccount") for _, place, _, _ in rows)
    assert has_token == (container == "agent")


def test_a_container_shares_no_namespace_with_the_node(processes: dict[str, Path], installed: Site) -> None:
    node = Path("/proc") / str(installed.lab.lab.namespaces[0].init.pid)
    for process in processes.values():
        for kind in ("net", "pid", "ipc", "uts", "mnt"):
            assert os.readlink(process / "ns" / kind) != os.readlink(node / "ns" / kind), kind


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/x', 'w')",
        "open('/host/sys/x', 'w')",
        "open('/run/fairlead/x', 'w')",
        "open('/var/lib/kubelet/x', 'w')",
        "import os; os.listdir('/var/lib/kubelet/pods')",
        "import socket; socket.socket(1).connect('/var/lib/kubelet/pod-resources/kubelet.sock')",
        "import socket; socket.socket(1).connect('/var/lib/kubelet/device-plugins/kubelet.sock')",
        "import os; os.setuid(0)",
        "import os; os.mknod('/var/lib/kubelet/plugins/fairlead.dev/x', 0o20666, os.makedev(1, 11))",
        "import os; os.chroot('/host')",
    ],
)
def test_forbidden_operations_of_the_agent_fail(site: Site, attempt: str) -> None:
    done = site.exec("/usr/bin/python3", "-IS", "-c", attempt)
    assert done.returncode == 1, done.stdout
    assert any(word in done.stderr for word in ("Permission", "Read-only", "No such file", "not permitted"))


def find(site: Site) -> dict[str, Path] | None:
    """Return the processes of the one ready pod by container."""
    pod = site.ready_agent()
    if pod is None:
        return None
    processes = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
            name = Path("/proc", str(pid), "root", "etc", "hostname").read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if name == pod["metadata"]["name"]:
            processes["agent" if "serve" in words and "agent" in words else "warden"] = Path("/proc") / pid
    return processes if len(processes) == 2 else None
