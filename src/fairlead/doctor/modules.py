"""The kernel modules that containers and services need: loaded, built in, or still to be loaded."""

from dataclasses import dataclass
from typing import Final

from fairlead.doctor.finding import CheckResult, fail, ok, some, warn
from fairlead.host import Host

_LIMIT: Final = 4 << 20
"""Bytes: a distribution's list of modules is larger than the usual limit on a file."""
_KEEP: Final = "/etc/modules-load.d/kubernetes.conf"


@dataclass(frozen=True, slots=True)
class KernelModules:
    """Alternative modules: any one of them suffices."""

    names: tuple[str, ...]
    purpose: str


NEEDS: Final = (
    KernelModules(("overlay",), "the layers of images"),
    KernelModules(("br_netfilter",), "services that pods on one bridge call"),
    KernelModules(("nf_tables", "ip_tables"), "services"),
)


def examine(host: Host) -> list[CheckResult]:
    """Report the modules that are missing, and those that are only not loaded."""
    loaded, available = _loaded(host), _available(host)
    unmet = [need for need in NEEDS if not loaded.intersection(need.names)]
    if not unmet:
        return [ok("the kernel has what containers and services need")]
    if available is None:
        names = some(" or ".join(need.names) for need in unmet)
        text = f"whether the kernel has {names} is unknown: its list of modules cannot be read"
        return [warn(text, "run it on the machine itself, not in a container: modprobe -n NAME")]
    return [_missing(need, available) for need in unmet]


def _missing(need: KernelModules, available: set[str]) -> CheckResult:
    loadable = [name for name in need.names if name in available]
    if loadable:
        todo = f"modprobe {loadable[0]}, and keep it: echo {loadable[0]} >> {_KEEP}"
        return warn(f"kernel module {loadable[0]} is not loaded: needed for {need.purpose}", todo)
    names = " or ".join(need.names)
    text = f"the kernel has no {names}: needed for {need.purpose}"
    return fail(text, "install the kernel's extra modules (Ubuntu: linux-modules-extra), or another kernel")


def _loaded(host: Host) -> set[str]:
    """Return the modules that are loaded or built in."""
    rows = (host.read("/proc/modules", _LIMIT) or b"").splitlines()
    names = {row.split()[0].decode("utf-8", "replace") for row in rows if row.split()}
    names |= _listed(host, "modules.builtin") or set()
    # Where no list can be read, /proc/filesystems still shows the kernel's file systems.
    systems = (host.read("/proc/filesystems") or b"").split()
    return names | ({"overlay"} if b"overlay" in systems else set())


def _available(host: Host) -> set[str] | None:
    """Return the modules that can be loaded; None where the list cannot be read."""
    return _listed(host, "modules.dep")


def _listed(host: Host, file: str) -> set[str] | None:
    """Return the names in one of the kernel's lists: `kernel/fs/overlayfs/overlay.ko.xz: ...`."""
    release = host.text("/proc/sys/kernel/osrelease")
    data = host.read(f"/lib/modules/{release}/{file}", _LIMIT) if release and "/" not in release else None
    if data is None:
        return None
    paths = (row.split(":")[0] for row in data.decode("utf-8", "replace").splitlines())
    return {path.rpartition("/")[2].split(".ko")[0].replace("-", "_") for path in paths if path}
