"""Checks of what a machine needs to join a cluster as a node, and to stay in it."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fairlead.compat.times import UTC
from fairlead.doctor import modules
from fairlead.doctor.distributions import (
    DEFAULT_KUBELET_DIR,
    KubernetesDistribution,
    detect_distribution,
    kubelet_folder,
)
from fairlead.doctor.finding import CheckResult, Finding, fail, ok, some, warn
from fairlead.errors import MissingPartError
from fairlead.host import Host

_BIRTH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""No clock that is right shows less: this program is younger."""
_SOON: Final = timedelta(days=7)
_SWAP_CONFIG: Final = re.compile(r"^failSwapOn:\s*false\b", re.MULTILINE)
_ZRAM: Final = "/dev/zram"
_NVZRAM: Final = ("/etc/systemd/nvzramconfig.sh", "/etc/systemd/system/nvzramconfig.service")
_CONTROLLERS: Final = "/sys/fs/cgroup/cgroup.controllers"
_BOOT: Final = ("/boot/firmware/cmdline.txt", "/boot/cmdline.txt")
"""Where a Raspberry Pi keeps the kernel's command line, the newer place first."""
_SYNCED: Final = "/run/systemd/timesync/synchronized"


@dataclass(frozen=True, slots=True)
class ClockStatus:
    """What the machine's clock shows, and whether something keeps it right."""

    now: datetime
    synchronised: bool | None = None
    """What the kernel says; None: it was not asked, or does not know."""


def examine_node(host: Host, clock: ClockStatus) -> list[Finding]:
    """Return what the checks of a node find on a machine."""
    found = detect_distribution(host)
    checks = {
        "kubelet": _kubelet(host, found),
        "swap": _swap(host, found),
        "memory-cgroup": _cgroup(host),
        "clock": _clock(host, clock),
        "certificate": _certificate(host, clock, found),
        "kernel-modules": modules.examine(host),
    }
    return [
        Finding(name, said.verdict, said.text, said.todo) for name, each in checks.items() for said in each
    ]


def _kubelet(host: Host, found: KubernetesDistribution | None) -> list[CheckResult]:
    """Say where the kubelet and containerd are, and what the chart must be told of it."""
    if found is None:
        return [ok("no kubelet is installed yet")]
    folder = kubelet_folder(host, found)
    if not folder:
        todo = f"start it: systemctl status {found.service}; its log says why it does not run"
        return [warn(f"{found.name} is installed, and its kubelet has not run: no {found.kubelet[0]}", todo)]
    said = [ok(f"{found.name}: the kubelet's folder is {folder}, containerd's socket {found.socket}")]
    if folder != DEFAULT_KUBELET_DIR:
        file = f"values-{found.name}.yaml"
        how = f"its {file}" if folder == found.kubelet[0] else f"--set kubeletDir={folder}"
        text = f"the kubelet of {found.name} keeps its files in {folder}, not in {DEFAULT_KUBELET_DIR}"
        said = [warn(text, f"install the chart with {how}: `fairlead docs boards`")]
    if not host.exists(found.socket):
        todo = f"start it: systemctl status {found.service}"
        said.append(warn(f"{found.socket} is not there: containerd of {found.name} does not run", todo))
    return said


def _swap(host: Host, found: KubernetesDistribution | None) -> list[CheckResult]:
    rows = (host.read("/proc/swaps") or b"").decode("utf-8", "replace").splitlines()[1:]
    places = [row.split()[0] for row in rows if row.split()]
    if not places:
        return [ok("no swap is on")]
    on = f"swap is on ({some(places)})"
    if found is not None and (found.swap or _SWAP_CONFIG.search(_config(host))):
        return [ok(f"{on}, and the kubelet of {found.name} accepts it")]
    text = f"{on}: a kubelet does not start beside it unless failSwapOn is false"
    return [(fail if found else warn)(text, _swap_cure(host, places))]


def _config(host: Host) -> str:
    return (host.read(f"{DEFAULT_KUBELET_DIR}/config.yaml") or b"").decode("utf-8", "replace")


def _swap_cure(host: Host, places: list[str]) -> str:
    cures = []
    zram = [place for place in places if place.startswith(_ZRAM)]
    if zram and any(map(host.exists, _NVZRAM)):
        cures.append("systemctl disable --now nvzramconfig, and reboot")
    elif zram:
        cures.append("remove zram-tools, zram-config or systemd-zram-generator, and reboot")
    if len(zram) < len(places):
        cures.append("swapoff -a, and take swap out of /etc/fstab (Raspberry Pi: dphys-swapfile uninstall)")
    return f"{'; '.join(cures)}; or set failSwapOn: false in the kubelet's configuration"


def _cgroup(host: Host) -> list[CheckResult]:
    """Say whether the kernel can count and limit the memory of a pod."""
    unified = host.read(_CONTROLLERS)
    if unified is not None:
        on, where = b"memory" in unified.split(), _CONTROLLERS
    else:
        rows = [row.split() for row in (host.read("/proc/cgroups") or b"").splitlines()]
        memory = [row for row in rows if len(row) == 4 and row[0] == b"memory"]
        if not rows:
            return [warn("whether memory can be limited is unknown: no cgroups are to be read", _CGROUP2)]
        on, where = bool(memory) and memory[0][3] == b"1", "/proc/cgroups"
    if not on:
        return [fail(f"the memory cgroup is off ({where}): no kubelet starts", _memory_cure(host))]
    if unified is None:
        text = "the machine has cgroup v1, which kubelets from 1.35 on refuse (failCgroupV1)"
        return [warn(text, _CGROUP2)]
    return [ok("the memory cgroup is on")]


_CGROUP2: Final = "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line"


def _memory_cure(host: Host) -> str:
    file = next(filter(host.exists, _BOOT), "the kernel's command line")
    return f"add cgroup_enable=memory cgroup_memory=1 to the one line of {file}, and reboot"


def _clock(host: Host, clock: ClockStatus) -> list[CheckResult]:
    todo = "let it be set: timedatectl set-ntp true, or install chrony; without a network: date -s"
    if clock.now < _BIRTH:
        text = f"the clock shows {clock.now:%Y-%m-%d}: every certificate of the cluster is not yet valid"
        return [fail(text, todo)]
    if clock.synchronised or host.exists(_SYNCED):
        return [ok("the clock is synchronised")]
    if clock.synchronised is None:
        return [ok("whether the clock is synchronised is unknown; it shows a year that can be")]
    return [warn("the clock is not synchronised: certificates and leases go by it", todo)]


def _certificate(host: Host, clock: ClockStatus, found: KubernetesDistribution | None) -> list[CheckResult]:
    """Say whether the kubelet's certificate is still valid: that of a board that lay in a drawer is not."""
    data = host.read(found.certificate) if found else None
    if found is None or data is None:
        return []
    try:
        from fairlead.cluster.config import certificate  # noqa: PLC0415  # a bare core has no such room
    except MissingPartError:
        return []
    end = certificate.expiry(data)
    if end is None:
        return [warn(f"{found.certificate} holds no certificate", f"restart {found.service}")]
    if end <= clock.now + _SOON:
        when = "ran out" if end <= clock.now else "runs out"
        text = f"the kubelet's certificate {found.certificate} {when} on {end:%Y-%m-%d}"
        said = fail if end <= clock.now else warn
        return [said(text, f"restart {found.service}, which renews it; else join the node again")]
    return [ok("the kubelet's certificate is valid")]
