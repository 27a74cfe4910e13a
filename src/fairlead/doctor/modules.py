"""What the kernel must be able to do for containers and services: loaded, built in, or still to be loaded."""

from dataclasses import dataclass
from typing import Final

from fairlead.doctor.finding import CheckResult, fail, ok, some, warn
from fairlead.host import Host

_LIMIT: Final = 4 << 20
"""The list of a distribution's modules is larger than what is read otherwise."""
_KEEP: Final = "/etc/modules-load.d/kubernetes.conf"


@dataclass(frozen=True, slots=True)
class KernelModules:
    """Modules of which any one does."""

    names: tuple[str, ...]
    purpose: str


NEEDS: Final = (
    KernelModules(("overlay",), "the layers of images"),
    KernelModules(("br_netfilter",), "services that pods on one bridge call"),
    KernelModules(("nf_tables", "ip_tables"), "services"),
)


def examine(host: Host) -> list[CheckResult]:
    """Say what is missing, and what is only not loaded."""
    live, at_hand = _loaded(host), _at_hand(host)
    idle = [need for need in NEEDS if not live.intersection(need.names)]
    if not idle:
        return [ok("the kernel has what containers and services need")]
    if at_hand is None:
        names = some(" or ".join(need.names) for need in idle)
        text = f"whether the kernel has {names} is unknown: its modules are not to be seen"
        return [warn(text, "look on the machine itself, not in a container: modprobe -n NAME")]
    return [_missing(need, at_hand) for need in idle]


def _missing(need: KernelModules, at_hand: set[str]) -> CheckResult:
    ready = [name for name in need.names if name in at_hand]
    if ready:
        todo = f"modprobe {ready[0]}, and keep it: echo {ready[0]} >> {_KEEP}"
        return warn(f"kernel module {ready[0]} is not loaded: needed for {need.purpose}", todo)
    names = " or ".join(need.names)
    text = f"the kernel has no {names}: needed for {need.purpose}"
    return fail(text, "install the kernel's extra modules (Ubuntu: linux-modules-extra), or another kernel")


def _loaded(host: Host) -> set[str]:
    """Return the modules that work now, those that are built in included."""
    rows = (host.read("/proc/modules", _LIMIT) or b"").splitlines()
    names = {row.split()[0].decode("utf-8", "replace") for row in rows if row.split()}
    names |= _listed(host, "modules.builtin") or set()
    # Where no list is to be read, the kernel still says which file systems it has.
    systems = (host.read("/proc/filesystems") or b"").split()
    return names | ({"overlay"} if b"overlay" in systems else set())


def _at_hand(host: Host) -> set[str] | None:
    """Return the modules that could be loaded; None where that is not to be seen."""
    return _listed(host, "modules.dep")


def _listed(host: Host, file: str) -> set[str] | None:
    """Return the names in one of the kernel's lists: `kernel/fs/overlayfs/overlay.ko.xz: ...`."""
    release = host.text("/proc/sys/kernel/osrelease")
    data = host.read(f"/lib/modules/{release}/{file}", _LIMIT) if release and "/" not in release else None
    if data is None:
        return None
    paths = (row.split(":")[0] for row in data.decode("utf-8", "replace").splitlines())
    return {path.rpartition("/")[2].split(".ko")[0].replace("-", "_") for path in paths if path}
