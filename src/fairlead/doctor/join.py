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

_OLDEST_DATE: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""A correct clock shows a later date: this program is younger."""
_EXPIRES_SOON: Final = timedelta(days=7)
_SWAP_CONFIG: Final = re.compile(r"^failSwapOn:\s*false\b", re.MULTILINE)
_ZRAM: Final = "/dev/zram"
_NVZRAM: Final = ("/etc/systemd/nvzramconfig.sh", "/etc/systemd/system/nvzramconfig.service")
_CONTROLLERS: Final = "/sys/fs/cgroup/cgroup.controllers"
_BOOT: Final = ("/boot/firmware/cmdline.txt", "/boot/cmdline.txt")
"""Where a Raspberry Pi keeps the kernel's command line, the newer place first."""
_SYNCED: Final = "/run/systemd/timesync/synchronized"


@dataclass(frozen=True, slots=True)
class ClockStatus:
    """What the machine's clock shows, and whether it is synchronised."""

    now: datetime
    synchronised: bool | None = None
    """What the kernel says; None: the kernel was not asked, or does not know."""


def examine_node(host: Host, clock: ClockStatus) -> list[Finding]:
    """Return the findings of the checks that a node must pass."""
    distribution = detect_distribution(host)
    checks = {
        "kubelet": _kubelet(host, distribution),
        "swap": _swap(host, distribution),
        "memory-cgroup": _cgroup(host),
        "clock": _clock(host, clock),
        "certificate": _certificate(host, clock, distribution),
        "kernel-modules": modules.examine(host),
    }
    return [
        Finding(name, result.verdict, result.text, result.todo)
        for name, results in checks.items()
        for result in results
    ]


def _kubelet(host: Host, installed: KubernetesDistribution | None) -> list[CheckResult]:
    """Report where the kubelet and containerd are, and the chart's option where that differs."""
    if installed is None:
        return [ok("no kubelet is installed yet")]
    folder = kubelet_folder(host, installed)
    if not folder:
        todo = f"start it: systemctl status {installed.service}; its log says why it does not run"
        return [
            warn(
                f"{installed.name} is installed, and its kubelet has not run: no {installed.kubelet[0]}",
                todo,
            )
        ]
    results = [
        ok(f"{installed.name}: the kubelet's folder is {folder}, containerd's socket {installed.socket}")
    ]
    if folder != DEFAULT_KUBELET_DIR:
        file = f"values-{installed.name}.yaml"
        option = f"its {file}" if folder == installed.kubelet[0] else f"--set kubeletDir={folder}"
        text = f"the kubelet of {installed.name} keeps its files in {folder}, not in {DEFAULT_KUBELET_DIR}"
        results = [warn(text, f"install the chart with {option}: `fairlead docs boards`")]
    if not host.exists(installed.socket):
        todo = f"start it: systemctl status {installed.service}"
        results.append(
            warn(f"{installed.socket} is not there: containerd of {installed.name} does not run", todo)
        )
    return results


def _swap(host: Host, distribution: KubernetesDistribution | None) -> list[CheckResult]:
    rows = (host.read("/proc/swaps") or b"").decode("utf-8", "replace").splitlines()[1:]
    places = [row.split()[0] for row in rows if row.split()]
    if not places:
        return [ok("no swap is on")]
    on = f"swap is on ({some(places)})"
    if distribution is not None and (distribution.swap or _SWAP_CONFIG.search(_config(host))):
        return [ok(f"{on}, and the kubelet of {distribution.name} accepts it")]
    text = f"{on}: a kubelet does not start with swap on unless failSwapOn is false"
    return [(fail if distribution else warn)(text, _swap_hint(host, places))]


def _config(host: Host) -> str:
    return (host.read(f"{DEFAULT_KUBELET_DIR}/config.yaml") or b"").decode("utf-8", "replace")


def _swap_hint(host: Host, places: list[str]) -> str:
    steps = []
    zram = [place for place in places if place.startswith(_ZRAM)]
    if zram and any(map(host.exists, _NVZRAM)):
        steps.append("systemctl disable --now nvzramconfig, and reboot")
    elif zram:
        steps.append("remove zram-tools, zram-config or systemd-zram-generator, and reboot")
    if len(zram) < len(places):
        steps.append("swapoff -a, and take swap out of /etc/fstab (Raspberry Pi: dphys-swapfile uninstall)")
    return f"{'; '.join(steps)}; or set failSwapOn: false in the kubelet's configuration"


def _cgroup(host: Host) -> list[CheckResult]:
    """Report whether the kernel can count and limit the memory of a pod."""
    unified = host.read(_CONTROLLERS)
    if unified is not None:
        on, where = b"memory" in unified.split(), _CONTROLLERS
    else:
        rows = [row.split() for row in (host.read("/proc/cgroups") or b"").splitlines()]
        memory = [row for row in rows if len(row) == 4 and row[0] == b"memory"]
        if not rows:
            return [warn("whether memory can be limited is unknown: no cgroups can be read", _CGROUP2)]
        on, where = bool(memory) and memory[0][3] == b"1", "/proc/cgroups"
    if not on:
        return [fail(f"the memory cgroup is off ({where}): no kubelet starts", _memory_hint(host))]
    if unified is None:
        text = "the machine has cgroup v1, which kubelets from 1.35 on refuse (failCgroupV1)"
        return [warn(text, _CGROUP2)]
    return [ok("the memory cgroup is on")]


_CGROUP2: Final = "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line"


def _memory_hint(host: Host) -> str:
    file = next(filter(host.exists, _BOOT), "the kernel's command line")
    return f"add cgroup_enable=memory cgroup_memory=1 to the one line of {file}, and reboot"


def _clock(host: Host, clock: ClockStatus) -> list[CheckResult]:
    todo = "synchronise it: timedatectl set-ntp true, or install chrony; without a network: date -s"
    if clock.now < _OLDEST_DATE:
        text = f"the clock shows {clock.now:%Y-%m-%d}: every certificate of the cluster is not yet valid"
        return [fail(text, todo)]
    if clock.synchronised or host.exists(_SYNCED):
        return [ok("the clock is synchronised")]
    if clock.synchronised is None:
        return [ok("whether the clock is synchronised is unknown; it shows a plausible year")]
    return [warn("the clock is not synchronised: certificates and leases depend on it", todo)]


def _certificate(
    host: Host, clock: ClockStatus, distribution: KubernetesDistribution | None
) -> list[CheckResult]:
    """Report whether the kubelet's certificate is valid: on a board that was off for months it expired."""
    data = host.read(distribution.certificate) if distribution else None
    if distribution is None or data is None:
        return []
    try:
        from fairlead.cluster.config import certificate  # noqa: PLC0415  # the core without extras lacks it
    except MissingPartError:
        return []
    end = certificate.expiry(data)
    if end is None:
        return [warn(f"{distribution.certificate} holds no certificate", f"restart {distribution.service}")]
    if end <= clock.now + _EXPIRES_SOON:
        when = "expired" if end <= clock.now else "expires"
        text = f"the kubelet's certificate {distribution.certificate} {when} on {end:%Y-%m-%d}"
        result = fail if end <= clock.now else warn
        return [result(text, f"restart {distribution.service}, which renews it; else join the node again")]
    return [ok("the kubelet's certificate is valid")]
