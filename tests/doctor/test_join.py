"""What a machine needs to join a cluster: boards as folders, each with the fault that it is known for."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fairlead.compat.times import UTC
from fairlead.doctor.finding import Finding, Severity
from fairlead.doctor.join import ClockStatus, examine_node
from fairlead.host import Host
from tests.cluster.loopback import Authority

NOW = datetime(2026, 11, 17, tzinfo=UTC)
SYNCHRONISED = ClockStatus(NOW, synchronised=True)
SWAPS = "Filename Type Size Used Priority\n"
HEALTHY = {
    "/proc/swaps": SWAPS,
    "/proc/modules": "overlay 155648 1 - Live 0x0\nbr_netfilter 32768 0 - Live 0x0\n",
    "/proc/sys/kernel/osrelease": "5.15.148-tegra\n",
    "/lib/modules/5.15.148-tegra/modules.builtin": "kernel/net/netfilter/nf_tables.ko\n",
    "/lib/modules/5.15.148-tegra/modules.dep": "kernel/fs/overlayfs/overlay.ko.zst:\n",
    "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids\n",
}
K3S = {
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml": "",
    "/var/lib/kubelet/plugins_registry/.keep": "",
    "/run/k3s/containerd/containerd.sock": "",
}
ZRAM = SWAPS + "/dev/zram0 partition 325000 0 5\n/dev/zram1 partition 325000 0 5\n"
KUBEADM = {
    "/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n",
    "/var/lib/kubelet/plugins_registry/.keep": "",
    "/run/containerd/containerd.sock": "",
}


def machine(folder: Path, *files: dict[str, str]) -> Host:
    """Return a healthy machine with some files added or replaced."""
    for path, text in {name: text for each in (HEALTHY, *files) for name, text in each.items()}.items():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return Host(str(folder))


def findings_of(host: Host, clock: ClockStatus = SYNCHRONISED) -> dict[str, Finding]:
    findings = examine_node(host, clock)
    return {finding.check: finding for finding in reversed(findings)}


def test_a_machine_that_can_join(tmp_path: Path) -> None:
    findings = findings_of(machine(tmp_path))
    assert set(findings) == {"kubelet", "swap", "memory-cgroup", "clock", "kernel-modules"}
    assert {finding.verdict for finding in findings.values()} == {Severity.OK}


def test_zram_of_a_jetson_names_its_service(tmp_path: Path) -> None:
    host = machine(tmp_path, KUBEADM, {"/proc/swaps": ZRAM, "/etc/systemd/nvzramconfig.sh": ""})
    swap = findings_of(host)["swap"]
    assert swap.verdict is Severity.FAIL
    assert "/dev/zram0" in swap.text
    assert "systemctl disable --now nvzramconfig" in swap.todo
    assert "swapoff" not in swap.todo


def test_zram_of_another_board_and_swap_on_a_disk(tmp_path: Path) -> None:
    both = ZRAM + "/var/swap file 102400 0 -2\n"
    swap = findings_of(machine(tmp_path, {"/proc/swaps": both}))["swap"]
    assert swap.verdict is Severity.WARN, "no kubelet is installed yet"
    assert "nvzramconfig" not in swap.todo
    assert "zram" in swap.todo
    assert "swapoff -a" in swap.todo


@pytest.mark.parametrize(
    "files",
    [K3S, KUBEADM | {"/var/lib/kubelet/config.yaml": "failSwapOn: false\n"}],
    ids=["k3s", "failSwapOn"],
)
def test_a_kubelet_that_accepts_swap(tmp_path: Path, files: dict[str, str]) -> None:
    assert findings_of(machine(tmp_path, files, {"/proc/swaps": ZRAM}))["swap"].verdict is Severity.OK


@pytest.mark.parametrize("file", ["/boot/firmware/cmdline.txt", "/boot/cmdline.txt"])
def test_the_memory_cgroup_of_a_raspberry_pi(tmp_path: Path, file: str) -> None:
    host = machine(tmp_path, {"/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io pids\n", file: "quiet\n"})
    cgroup = findings_of(host)["memory-cgroup"]
    assert cgroup.verdict is Severity.FAIL
    assert "cgroup_enable=memory cgroup_memory=1" in cgroup.todo
    assert f" {file}," in cgroup.todo


@pytest.mark.parametrize(("enabled", "verdict"), [("0", Severity.FAIL), ("1", Severity.WARN)])
def test_the_older_cgroups(tmp_path: Path, enabled: str, verdict: Severity) -> None:
    rows = f"#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t4\t1\nmemory\t2\t4\t{enabled}\n"
    host = machine(tmp_path, {"/proc/cgroups": rows})
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").unlink()
    assert findings_of(host)["memory-cgroup"].verdict is verdict


def test_clocks(tmp_path: Path) -> None:
    host = machine(tmp_path)
    unset = findings_of(host, ClockStatus(datetime(1970, 1, 1, 0, 3, tzinfo=UTC), synchronised=False))[
        "clock"
    ]
    assert unset.verdict is Severity.FAIL
    assert "not yet valid" in unset.text
    assert "timedatectl set-ntp true" in unset.todo
    assert findings_of(host, ClockStatus(NOW, synchronised=False))["clock"].verdict is Severity.WARN
    assert findings_of(host, ClockStatus(NOW))["clock"].verdict is Severity.OK
    synchronised = machine(tmp_path, {"/run/systemd/timesync/synchronized": ""})
    assert findings_of(synchronised, ClockStatus(NOW, synchronised=False))["clock"].verdict is Severity.OK


@pytest.mark.parametrize(
    ("left", "verdict"), [(-1, Severity.FAIL), (3, Severity.WARN), (300, Severity.OK)], ids=str
)
def test_the_kubelets_certificate(tmp_path: Path, left: int, verdict: Severity) -> None:
    pem = Authority().leaf("n1", until=NOW + timedelta(days=left)).certificate.decode()
    host = machine(tmp_path, K3S, {"/var/lib/rancher/k3s/agent/client-kubelet.crt": pem})
    assert findings_of(host)["certificate"].verdict is verdict


def test_modules_that_are_not_loaded_and_modules_that_are_missing(tmp_path: Path) -> None:
    release = "/lib/modules/5.15.148-tegra"
    files = {
        "/proc/modules": "overlay 155648 1 - Live 0x0\n",
        f"{release}/modules.builtin": "kernel/fs/ext4/ext4.ko\n",
        f"{release}/modules.dep": "kernel/net/bridge/br_netfilter.ko.zst: kernel/net/bridge/bridge.ko.zst\n",
    }
    findings = [
        each
        for each in examine_node(machine(tmp_path, files), SYNCHRONISED)
        if each.check == "kernel-modules"
    ]
    unloaded, missing = findings
    assert unloaded.verdict is Severity.WARN
    assert "modprobe br_netfilter" in unloaded.todo
    assert missing.verdict is Severity.FAIL
    assert "nf_tables or ip_tables" in missing.text


def test_modules_that_cannot_be_listed(tmp_path: Path) -> None:
    host = machine(tmp_path, {"/proc/modules": "", "/proc/filesystems": "nodev\toverlay\n"})
    (tmp_path / "lib/modules/5.15.148-tegra/modules.builtin").unlink()
    (tmp_path / "lib/modules/5.15.148-tegra/modules.dep").unlink()
    modules = findings_of(host)["kernel-modules"]
    assert modules.verdict is Severity.WARN
    assert "overlay" not in modules.text


def test_the_paths_of_k3s(tmp_path: Path) -> None:
    kubelet = findings_of(machine(tmp_path, K3S))["kubelet"]
    assert kubelet.verdict is Severity.OK
    assert "/run/k3s/containerd/containerd.sock" in kubelet.text
    (tmp_path / "run/k3s/containerd/containerd.sock").unlink()
    down = examine_node(Host(str(tmp_path)), SYNCHRONISED)
    assert any(each.verdict is Severity.WARN and "k3s-agent" in each.todo for each in down)


@pytest.mark.parametrize(
    ("files", "cure"),
    [
        (
            {"/var/lib/rancher/k3s/agent/kubelet/plugins_registry/.keep": ""},
            "--set kubeletDir=/var/lib/rancher/k3s/agent/kubelet",
        ),
        ({"/var/lib/k0s/kubelet/plugins_registry/.keep": ""}, "its values-k0s.yaml"),
        (
            {"/var/snap/microk8s/common/var/lib/kubelet/plugins_registry/.keep": ""},
            "its values-microk8s.yaml",
        ),
    ],
    ids=["k3s without root", "k0s", "microk8s"],
)
def test_a_kubelet_with_another_folder(tmp_path: Path, files: dict[str, str], cure: str) -> None:
    kubelet = findings_of(machine(tmp_path, files))["kubelet"]
    assert kubelet.verdict is Severity.WARN
    assert cure in kubelet.todo


def test_a_kubelet_that_has_not_run(tmp_path: Path) -> None:
    kubelet = findings_of(machine(tmp_path, {"/etc/rancher/k3s/config.yaml": ""}))["kubelet"]
    assert kubelet.verdict is Severity.WARN
    assert "has not run" in kubelet.text
