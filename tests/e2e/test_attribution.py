"""The measured use of a pod, on a real kubelet: under its name on the agent's page, and gone with it."""

import os
from pathlib import Path

from fairlead.errors import ClusterError
from tests.e2e.api import CORE, wait_for
from tests.e2e.install import NAMESPACE, PORT, Site
from tests.e2e.pods import CONTAINER, Pods
from tests.e2e.processes import ReportedProcesses
from tests.e2e.test_privileges import AGENT
from tests.test_nvml import needs_compiler

USED, PERCENT = 3 << 30, 40
GPU = 'id="pci-0000-3b-00-0",model="t4"'


@needs_compiler
def test_a_pods_use_appears_under_its_name_and_goes_away_with_it(
    pods: Pods, site: Site, tmp_path: Path
) -> None:
    processes = ReportedProcesses(site)
    processes.install(tmp_path)
    pods.start(["user"])
    pods.wait_running(["user"])
    pod = pods.all()["user"]
    labels = f'namespace="{pods.namespace}",pod="user",container="{CONTAINER}"'
    labels += f',pod_uid="{pod["metadata"]["uid"]}",{GPU}'
    wait_for("attribution", lambda: "fairlead_attribution_up 1.0" in page(site), site.diagnostics)
    assert "fairlead_pod_accelerator" not in page(site)

    pid = processes.pids(pods.namespace)["user"]
    processes.write({pid: USED}, PERCENT)
    used = f"fairlead_pod_accelerator_memory_used_bytes{{{labels}}} {float(USED)}"
    shown = wait_for("its use", lambda: text if used in (text := page(site)) else None, lambda: page(site))
    assert f"fairlead_pod_accelerator_memory_peak_bytes{{{labels}}} {float(USED)}" in shown
    assert f"fairlead_pod_accelerator_busy_ratio{{{labels}}} {PERCENT / 100}" in shown
    assert f"fairlead_accelerator_foreign_bytes{{{GPU}}} 0.0" in shown
    assert site.exec("/usr/bin/python3", "-IS", "-c", "import os; print(os.getuid())").stdout.strip() == AGENT
    visible = "import os; print(*[name for name in os.listdir('/proc') if name.isdigit()])"
    assert str(pid) not in site.exec("/usr/bin/python3", "-IS", "-c", visible).stdout.split()

    pods.stop(["user"])
    wait_for("its end", lambda: 'pod="user"' not in page(site), lambda: page(site))
    assert "fairlead_attribution_up 1.0" in page(site)


def test_the_program_has_no_privilege_but_the_nodes_pid_namespace(installed: Site) -> None:
    if installed.customized:
        installed.install()
    process = wait_for("the program", lambda: next(iter(programs()), None), installed.diagnostics)
    text = (process / "status").read_text(encoding="utf-8")
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert status["Uid"].split() == status["Gid"].split() == ["0"] * 4
    assert set(status["Groups"].split()) <= {"0", AGENT}
    assert {int(status[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    node = Path("/proc") / str(installed.lab.lab.namespaces[0].init.pid)
    shared = {
        kind
        for kind in ("net", "pid", "ipc", "uts", "mnt")
        if _namespace(process, kind) == _namespace(node, kind)
    }
    assert shared == {"pid"}
    mounts = (process / "mounts").read_text(encoding="utf-8")
    assert "kubernetes.io/serviceaccount" not in mounts
    assert "/var/lib/kubelet" not in mounts


def programs() -> list[Path]:
    """Return the folders below /proc of the running programs."""
    folders = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        if b"fairlead.attribution" in words and b"/run/fairlead-attribution" in words:
            folders.append(Path("/proc", pid))
    return folders


def page(site: Site) -> str:
    """Return the agent's page of metrics; empty while it cannot be read."""
    agent = wait_for("a ready agent", site.ready_agent, site.diagnostics)
    name = f"{agent['metadata']['name']}:{PORT}"
    try:
        return site.api.text(f"{CORE}/namespaces/{NAMESPACE}/pods/{name}/proxy/metrics")
    except ClusterError:
        return ""


def _namespace(process: Path, kind: str) -> str:
    return os.readlink(process / "ns" / kind)
