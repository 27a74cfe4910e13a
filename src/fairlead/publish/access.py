"""What a container receives so that it can use an accelerator: device nodes, environment, CDI devices.

What the users of a driver need is a row of a table. A device node is looked up on the machine, so that none
is granted that does not exist. Its accelerator is read from sysfs, so that no other accelerator is granted.
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
from fairlead.publish.memory_limit import VARIABLES
from fairlead.publish.usb import usb_nodes

Nvidia = Literal["env", "cdi"]

DRM, ACCEL, SOC_DRM = "{drm}", "{accel}", "{soc-drm}"
"""The accelerator's own nodes of a class; for `SOC_DRM` those of the SoC, on no bus with other devices."""
_TEGRA: Final = ("/dev/nvhost-*", "/dev/nvmap", "/dev/nvgpu/*/*", SOC_DRM)
_TEGRA_DRIVERS: Final = ("gk20a", "nvgpu")
_NVIDIA: Final = "nvidia"
"""The driver whose nodes NVIDIA's own container runtime adds, together with its libraries."""
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
"""By driver, the nodes that its users need beside the accelerator's own."""
VISIBLE: Final[Mapping[str, str]] = {
    "habanalabs": "HABANA_VISIBLE_DEVICES",
    "devdrv_device_driver": "ASCEND_VISIBLE_DEVICES",
}
"""By driver, the variable that selects the accelerator, by its number, for the vendor's runtime."""
ENVIRONMENT: Final = (
    r"FAIRLEAD_[A-Z0-9_]+",
    r"NVIDIA_VISIBLE_DEVICES",
    r"NVIDIA_DRIVER_CAPABILITIES",
    *VISIBLE.values(),
    *VARIABLES,
)
"""Every variable that a grant can contain, as patterns, for tests of the warden's rules."""
_OWN: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    DRM: ("drm", "/dev/dri", ("card[0-9]*", "renderD[0-9]*")),
    ACCEL: ("accel", "/dev/accel", ("accel[0-9]*", "accel_controlD[0-9]*")),
}
_BUSES: Final = ("/pci", "/usb")
_MOST: Final = 512
"""The most nodes of one pattern; a Jetson has about a hundred."""
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

    `resource` is the name under which it was requested, `share` identifies this share of the accelerator;
    `device_root` is the folder on the node below which its device nodes lie.
    """
    env = {
        **own_variables(acc, memory),
        env_variable(resource): acc.id,
        **({"FAIRLEAD_SHARE": printable(share)} if share else {}),
    }
    more, cdi = _runtime(acc, nvidia)
    nodes = (replace(node, host=f"{device_root}{node.path}") for node in _nodes(acc, host))
    return Grant({**env, **more}, tuple(nodes), cdi)


def own_variables(acc: Accelerator, memory: int | None = None) -> dict[str, str]:
    """Return our own variables for an accelerator, or for `memory` MiB of it: of a container or a command."""
    amount = {} if memory is None else {"FAIRLEAD_MEMORY_MIB": str(memory)}
    return {"FAIRLEAD_DEVICE": acc.id, "FAIRLEAD_MODEL": model_name(acc), **amount}


def env_variable(resource: str) -> str:
    """Return the variable that holds the devices granted for one resource.

    A container may have two resources; `FAIRLEAD_DEVICE` can describe one only.
    """
    word = re.sub(r"[^A-Z0-9]+", "_", resource.removeprefix(f"{DRIVER}/").upper()).strip("_")
    return f"FAIRLEAD_DEVICE_{word}"


def merge(grants: Iterable[Grant]) -> Grant:
    """Return what a container receives with several accelerators.

    Our own variables list all values, separated by commas; variables of vendors list each value once.
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


def without_cdi(grant_: Grant) -> Grant:
    """Return a grant that needs no CDI: a device plugin can grant only nodes that exist.

    A USB stick that loads its firmware reconnects under another number. So its whole bus is granted instead,
    `/dev/bus/usb/BBB`: a runtime reads the folder whenever it creates the container, also when it creates
    it again after the stick reconnected. The price is that the container can open every other device on
    that bus, as far as the host's permissions let it. With CDI it cannot.
    """
    nodes: dict[str, DeviceNode] = {}
    for node in grant_.nodes:
        shown = node if node.major is None else DeviceNode(dirname(node.path), dirname(node.host))
        nodes.setdefault(shown.path, shown)
    return replace(grant_, nodes=tuple(nodes.values()))


def nvidia_cdi_present(host: Host) -> bool:
    """Say whether NVIDIA's toolkit has written a CDI spec of its GPUs on this node."""
    for folder in _CDI_FOLDERS:
        for name in host.names(folder)[:_CDI_FILES]:
            if name.endswith((".json", ".yaml")):
                text = host.read(f"{folder}/{name}", _CDI_BYTES)
                if text and _NVIDIA_KIND.search(text):
                    return True
    return False


def _runtime(acc: Accelerator, nvidia: Nvidia) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables and CDI devices for the vendor's own container runtime."""
    visible = "all" if acc.driver in _TEGRA_DRIVERS else ""
    if acc.driver == _NVIDIA:
        visible = printable(acc.uuid or "") or node_number(acc) or acc.bus.removeprefix("pci:")
    if visible and nvidia == "cdi":
        return {"NVIDIA_VISIBLE_DEVICES": "void"}, (f"nvidia.com/gpu={visible}",)
    if visible:
        return {"NVIDIA_VISIBLE_DEVICES": visible, "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}, ()
    name, number = VISIBLE.get(acc.driver or ""), node_number(acc)
    return ({name: number}, ()) if name and number else ({}, ())


def node_number(acc: Accelerator) -> str:
    """Return the number at the end of the accelerator's node."""
    digits = re.search(r"[0-9]+$", acc.node or "")
    return digits[0] if digits else ""


def _nodes(acc: Accelerator, host: Host) -> list[DeviceNode]:
    if acc.bus.startswith("usb:"):
        return usb_nodes(acc, host)
    if acc.driver == _NVIDIA:  # an instance's own nodes: no other instance may become accessible
        nodes = acc.mig.nodes if acc.mig else ()
        return [DeviceNode(node, node) for node in nodes if host.exists(node) or not host.exists("/dev")]
    own = acc.node if acc.node and acc.node.startswith("/dev/") else None
    paths = [own] if own else []
    for pattern in NODES.get(acc.driver or "", ()):
        if pattern in _OWN:
            paths += _own(acc, host, pattern)
        elif pattern == SOC_DRM:
            paths += _soc_drm(host)
        elif own or "{node}" not in pattern:
            paths += _glob(host, pattern.replace("{node}", own or ""))
    return [DeviceNode(path, path) for path in dict.fromkeys(paths)]


def _own(acc: Accelerator, host: Host, which: str) -> list[str]:
    """Return the nodes of a class that sysfs shows below the accelerator itself."""
    kind, folder, patterns = _OWN[which]
    names = host.names(f"{acc.path}/{kind}")[:_MOST] if acc.path else []
    nodes = [f"{folder}/{name}" for name in names if any(fnmatchcase(name, each) for each in patterns)]
    return [node for node in nodes if host.exists(node) or not host.exists("/dev")]


def _soc_drm(host: Host) -> list[str]:
    """Return the DRM nodes that belong to the SoC and not to a card in a slot."""
    _, folder, patterns = _OWN[DRM]
    nodes = []
    for name in host.names("/sys/class/drm")[:_MOST]:
        home = host.resolve(f"/sys/class/drm/{name}")
        known = any(fnmatchcase(name, each) for each in patterns) and host.exists(f"{folder}/{name}")
        if known and home and not any(bus in home for bus in _BUSES):
            nodes.append(f"{folder}/{name}")
    return nodes


def _glob(host: Host, pattern: str) -> list[str]:
    """Return the existing paths that match a pattern; each of its parts may be a pattern."""
    places = [""]
    for part in pattern.strip("/").split("/"):
        if "*" in part or "[" in part:
            places = [
                f"{place}/{name}" for place in places for name in host.names(place or "/", part)[:_MOST]
            ]
        else:
            places = [f"{place}/{part}" for place in places]
    return [place for place in places[:_MOST] if host.exists(place)]
