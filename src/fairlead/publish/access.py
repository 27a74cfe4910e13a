"""What a container receives so that it can use an accelerator: device nodes, environment, CDI devices.

What a driver's users need is a row of a table. A node is looked up on the machine, so that nothing is given
that is not there, and whose it is is read from sysfs, so that no other accelerator comes along.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from os.path import dirname
from typing import Final, Literal

from fairlead.host import Host, printable
from fairlead.inventory import Accelerator
from fairlead.offer import DRIVER, DeviceNode, Grant
from fairlead.publish.labels import model_name
from fairlead.publish.usb import usb_nodes

Nvidia = Literal["env", "cdi"]

DRM, ACCEL, SOC_DRM = "{drm}", "{accel}", "{soc-drm}"
"""The accelerator's own nodes of a class; those of the SoC, which is on no bus that others can join."""
_TEGRA: Final = ("/dev/nvhost-*", "/dev/nvmap", "/dev/nvgpu/*/*", SOC_DRM)
_TEGRA_DRIVERS: Final = ("gk20a", "nvgpu")
_NVIDIA: Final = "nvidia"
"""The driver whose nodes are given by NVIDIA's own runtime, together with its libraries."""
NODES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_TEGRA_DRIVERS, _TEGRA),
    "amdgpu": (DRM, "/dev/kfd"),
    "hydcu": (DRM, "/dev/kfd", "/dev/mkfd"),
    "i915": (DRM,),
    "xe": (DRM,),
    "xocl": (DRM,),
    "metax": (DRM, "/dev/mxcd"),
    "mtgpu": (DRM,),
    "RKNPU": (DRM, "/dev/rknpu"),
    "intel_vpu": (ACCEL,),
    "amdxdna": (ACCEL,),
    "qaic": (ACCEL,),
    "habanalabs": (ACCEL,),
    "rocket": (ACCEL,),
    "ethosu": (ACCEL,),
    "neutron": (ACCEL,),
    "ax_pcie_dev_host": ("/dev/ax_mmb_dev", "/dev/msg_userdev"),
    "bmdrv": ("/dev/bmdev-ctl",),
    "devdrv_device_driver": ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
    "enflame": ("/dev/gcuctl",),
    "kunlun": ("/dev/xpuctrl",),
    "memx_pcie_ai_chip": ("{node}_feature",),
    "vfio-pci": ("/dev/vfio/vfio",),
}
"""By driver, the nodes that its users need besides the accelerator's own."""
VISIBLE: Final[Mapping[str, str]] = {
    "habanalabs": "HABANA_VISIBLE_DEVICES",
    "devdrv_device_driver": "ASCEND_VISIBLE_DEVICES",
}
"""By driver, the variable that tells the vendor's runtime which accelerator to show, by its number."""
ENVIRONMENT: Final = (
    r"FAIRLEAD_[A-Z0-9_]+",
    r"NVIDIA_VISIBLE_DEVICES",
    r"NVIDIA_DRIVER_CAPABILITIES",
    *VISIBLE.values(),
)
"""Every variable that is ever given, as patterns: whoever checks what is given needs them."""
_OWN: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    DRM: ("drm", "/dev/dri", ("card[0-9]*", "renderD[0-9]*")),
    ACCEL: ("accel", "/dev/accel", ("accel[0-9]*", "accel_controlD[0-9]*")),
}
_BUSES: Final = ("/pci", "/usb")
_MOST: Final = 512
"""Nodes of one pattern; a Jetson has about a hundred."""
_CDI_FOLDERS: Final = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
_CDI_FILES: Final = 64
_CDI_BYTES: Final = 1 << 20
_NVIDIA_KIND: Final = re.compile(rb"""["']?\bkind["']?\s*:\s*["']?nvidia\.com/gpu(?![\w./-])""")


def grant(
    acc: Accelerator,
    host: Host,
    *,
    resource: str,
    memory: int | None = None,
    share: str = "",
    nvidia: Nvidia = "env",
    device_root: str = "",
) -> Grant:
    """Return what a container receives with an accelerator, or with `memory` MiB of it.

    `resource` is what it was asked for by, `share` what tells this share from others of the accelerator;
    `device_root` is the folder on the node below which its device nodes lie.
    """
    env = {
        "FAIRLEAD_DEVICE": acc.id,
        env_variable(resource): acc.id,
        "FAIRLEAD_MODEL": model_name(acc),
        **({"FAIRLEAD_MEMORY_MIB": str(memory)} if memory is not None else {}),
        **({"FAIRLEAD_SHARE": printable(share)} if share else {}),
    }
    more, cdi = _runtime(acc, nvidia)
    nodes = (replace(node, host=f"{device_root}{node.path}") for node in _nodes(acc, host))
    return Grant({**env, **more}, tuple(nodes), cdi)


def env_variable(resource: str) -> str:
    """Return the variable that holds what was given for one resource.

    A container may have two resources; `FAIRLEAD_DEVICE` can tell of one only.
    """
    word = re.sub(r"[^A-Z0-9]+", "_", resource.removeprefix(f"{DRIVER}/").upper()).strip("_")
    return f"FAIRLEAD_DEVICE_{word}"


def merge(grants: Iterable[Grant]) -> Grant:
    """Return what a container receives that is given several accelerators.

    Our own variables name them one after the other, with commas; those of vendors name each thing once.
    """
    env: dict[str, list[str]] = {}
    nodes: dict[str, DeviceNode] = {}
    cdi: list[str] = []
    for each in grants:
        for name, value in each.env.items():
            values = env.setdefault(name, [])
            if name.startswith("FAIRLEAD_") or value not in values:
                values.append(value)
        for node in each.nodes:
            nodes.setdefault(node.path, node)
        cdi += each.cdi
    joined = {name: ",".join(values) for name, values in env.items()}
    return Grant(joined, tuple(nodes.values()), tuple(dict.fromkeys(cdi)))


def without_cdi(given: Grant) -> Grant:
    """Return a grant that needs no CDI: a device plugin can give only nodes that are there.

    A USB stick that loads its firmware comes back under another number. So its whole bus is given instead,
    `/dev/bus/usb/BBB`: a runtime looks into the folder whenever it makes the container, also when it makes
    it again after the stick came back. The price is that the container can open whatever else is plugged
    into that bus, as far as the host's permissions let it. With CDI it cannot.
    """
    nodes: dict[str, DeviceNode] = {}
    for node in given.nodes:
        shown = node if node.major is None else DeviceNode(dirname(node.path), dirname(node.host))
        nodes.setdefault(shown.path, shown)
    return replace(given, nodes=tuple(nodes.values()))


def nvidia_cdi_present(host: Host) -> bool:
    """Say whether NVIDIA's toolkit has described its GPUs for CDI on this node."""
    for folder in _CDI_FOLDERS:
        for name in host.names(folder)[:_CDI_FILES]:
            if name.endswith((".json", ".yaml")):
                text = host.read(f"{folder}/{name}", _CDI_BYTES)
                if text and _NVIDIA_KIND.search(text):
                    return True
    return False


def _runtime(acc: Accelerator, nvidia: Nvidia) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what the vendor's own container runtime must be told."""
    which = "all" if acc.driver in _TEGRA_DRIVERS else ""
    if acc.driver == _NVIDIA:
        which = printable(acc.uuid or "") or _number(acc) or acc.bus.removeprefix("pci:")
    if which and nvidia == "cdi":
        return {"NVIDIA_VISIBLE_DEVICES": "void"}, (f"nvidia.com/gpu={which}",)
    if which:
        return {"NVIDIA_VISIBLE_DEVICES": which, "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}, ()
    name, number = VISIBLE.get(acc.driver or ""), _number(acc)
    return ({name: number}, ()) if name and number else ({}, ())


def _number(acc: Accelerator) -> str:
    """Return the number at the end of the accelerator's node."""
    found = re.search(r"[0-9]+$", acc.node or "")
    return found[0] if found else ""


def _nodes(acc: Accelerator, host: Host) -> list[DeviceNode]:
    if acc.bus.startswith("usb:"):
        return usb_nodes(acc, host)
    if acc.driver == _NVIDIA:
        return []
    own = acc.node if acc.node and acc.node.startswith("/dev/") else None
    found = [own] if own else []
    for pattern in NODES.get(acc.driver or "", ()):
        if pattern in _OWN:
            found += _own(acc, host, pattern)
        elif pattern == SOC_DRM:
            found += _soc_drm(host)
        elif own or "{node}" not in pattern:
            found += _glob(host, pattern.replace("{node}", own or ""))
    return [DeviceNode(path, path) for path in dict.fromkeys(found)]


def _own(acc: Accelerator, host: Host, which: str) -> list[str]:
    """Return the nodes of a class that sysfs shows below the accelerator itself."""
    kind, folder, patterns = _OWN[which]
    names = host.names(f"{acc.path}/{kind}")[:_MOST] if acc.path else []
    nodes = [f"{folder}/{name}" for name in names if any(fnmatchcase(name, each) for each in patterns)]
    return [node for node in nodes if host.exists(node) or not host.exists("/dev")]


def _soc_drm(host: Host) -> list[str]:
    """Return the DRM nodes that belong to the SoC and not to a card in a slot."""
    _, folder, patterns = _OWN[DRM]
    found = []
    for name in host.names("/sys/class/drm")[:_MOST]:
        home = host.resolve(f"/sys/class/drm/{name}")
        known = any(fnmatchcase(name, each) for each in patterns) and host.exists(f"{folder}/{name}")
        if known and home and not any(bus in home for bus in _BUSES):
            found.append(f"{folder}/{name}")
    return found


def _glob(host: Host, pattern: str) -> list[str]:
    """Return what is there that fits a pattern; each of its parts may be a pattern."""
    places = [""]
    for part in pattern.strip("/").split("/"):
        if "*" in part or "[" in part:
            places = [
                f"{place}/{name}" for place in places for name in host.names(place or "/", part)[:_MOST]
            ]
        else:
            places = [f"{place}/{part}" for place in places]
    return [place for place in places[:_MOST] if host.exists(place)]
