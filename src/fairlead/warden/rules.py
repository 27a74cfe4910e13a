"""The rules of our CDI files: every allowed name; everything else is forbidden."""

import re
from typing import Final

_UID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
FILE: Final = re.compile(rf"fairlead\.dev-(accelerators|claim-{_UID})\.json")
KINDS: Final = {"accelerators": "fairlead.dev/accelerator", "claim": "fairlead.dev/claim"}
VERSIONS: Final = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
DEVICE_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,251}[A-Za-z0-9])?")

DEVICE_LIMIT: Final = 512
NODE_LIMIT: Final = 512
"""The most nodes of one device: a USB stick that reconnects may need all 127 of its bus."""
ENV_LIMIT: Final = 64
VALUE_LIMIT: Final = 4096

MPS_FOLDER: Final = "/run/fairlead-mps"
"""The node's folder of the MPS daemons: each has one of its own, named by 32 hexadecimal digits."""
MPS_PIPE: Final = "/tmp/nvidia-mps"  # noqa: S108 - in a container, where CUDA looks without a variable
"""Where a container finds the sockets of its MPS daemon."""
MOUNT_OPTIONS: Final = ("ro", "nosuid", "nodev", "noexec", "bind")
"""The options of the one mount: a container connects to the sockets, and can replace none of them."""

_IDS: Final = r"[A-Za-z0-9,:._-]*"
"""Accelerators by number or by id. No `/` and no `=`: NVIDIA's runtime reads those as other CDI devices."""
_FRACTION: Final = r"0\.[0-9]{4}"
_ENV: Final = {
    r"FAIRLEAD_[A-Z0-9_]{1,128}": r"[ -~]*",
    r"(?:NVIDIA|HABANA|ASCEND)_VISIBLE_DEVICES": _IDS,
    r"NVIDIA_DRIVER_CAPABILITIES": r"[a-z0-9,]*",
    r"XLA_PYTHON_CLIENT_MEM_FRACTION": _FRACTION,
    r"TF_FORCE_GPU_ALLOW_GROWTH": r"true",
    r"PYTORCH_ALLOC_CONF": rf"per_process_memory_fraction:{_FRACTION}",
    r"CUPY_GPU_MEMORY_LIMIT": r"[0-9]{1,15}",
    r"CUDA_MPS_PIPE_DIRECTORY": re.escape(MPS_PIPE),
    r"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": r"[0-9]{1,3}",
    r"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": r"[0-9]{1,3}=[0-9]{1,10}M(?:,[0-9]{1,3}=[0-9]{1,10}M)*",
}
_ENV_RULES: Final = [(re.compile(name), re.compile(value)) for name, value in _ENV.items()]

NODES: Final = (
    # NVIDIA, on a card and on a Jetson
    "/dev/nvidia#",
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
    "/dev/nvidia-caps/nvidia-cap#",
    "/dev/nvhost-*",
    "/dev/nvmap",
    "/dev/nvgpu/*/*",
    "/dev/nvdla*",
    "/dev/nvsciipc",
    "/dev/host1x-fence",
    # what many drivers share
    "/dev/dri/card#",
    "/dev/dri/renderD#",
    "/dev/accel/accel#",
    "/dev/accel/accel_controlD#",
    "/dev/accel#",
    "/dev/bus/usb/###/###",
    "/dev/vfio/#",
    "/dev/vfio/vfio",
    # the edge
    "/dev/apex_#",
    "/dev/hailo*",
    "/dev/h1x-*",
    "/dev/memx#",
    "/dev/memx#_feature",
    "/dev/metis-*",
    "/dev/dxrt#",
    "/dev/axcl_host",
    "/dev/ax_mmb_dev",
    "/dev/msg_userdev",
    "/dev/pcie-rkep-*",
    "/dev/akida#",
    "/dev/aries#",
    "/dev/bm-sophon#",
    "/dev/bmdev-ctl",
    # engines of a system on a chip
    "/dev/rknpu",
    "/dev/mali#",
    "/dev/galcore",
    "/dev/vipcore",
    "/dev/ethosu#",
    "/dev/neutron#",
    "/dev/adla#",
    "/dev/aie*",
    "/dev/aipu",
    "/dev/apusys",
    "/dev/abrolhos",
    "/dev/edgetpu*",
    "/dev/bm-tpu#",
    "/dev/bpu_core#",
    "/dev/cvi-tpu#",
    "/dev/dpu",
    "/dev/drpai#",
    "/dev/fastrpc-cdsp",
    "/dev/fastrpc-cdsp*",
    "/dev/synap",
    "/dev/vha#",
    # cards of a server
    "/dev/kfd",
    "/dev/mkfd",
    "/dev/hl#",
    "/dev/hl_controlD#",
    "/dev/biren/card_#",
    "/dev/cambricon_dev#",
    "/dev/davinci#",
    "/dev/davinci_manager",
    "/dev/devmm_svm",
    "/dev/hisi_hdc",
    "/dev/dfl-port.#",
    "/dev/intel-fpga-port.#",
    "/dev/et#_ops",
    "/dev/gcu#",
    "/dev/gcuctl",
    "/dev/groq*",
    "/dev/iluvatar#",
    "/dev/ipu#",
    "/dev/mtgpu.#",
    "/dev/mxcd",
    "/dev/neuron#",
    "/dev/npu#",
    "/dev/rbln#",
    "/dev/rngd/npu*",
    "/dev/tenstorrent/#",
    "/dev/vastai#",
    "/dev/ve#",
    "/dev/xpu#",
    "/dev/xpuctrl",
)
"""Device nodes of accelerators: `###` is three digits, `#` a number, `*` a short name without a slash."""
_NEVER: Final = {
    "/dev/nvidia-caps/nvidia-cap1": "it configures the partitions of every GPU (mig/config)",
    "/dev/nvidia-caps/nvidia-cap2": "it watches the partitions of every GPU (mig/monitor)",
}
_SIGNS: Final = {"###": "[0-9]{3}", "#": "[0-9]{1,4}", "*": "[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,47}"}


def _pattern(glob: str) -> str:
    parts = re.split(r"(###|#|\*)", glob)
    return "".join(_SIGNS.get(part) or re.escape(part) for part in parts)


_NODE: Final = re.compile("|".join(map(_pattern, NODES)))
_USB_LAST: Final = 127
_USB: Final = re.compile(r"/dev/bus/usb/([0-9]{3})/([0-9]{3})")


def kind_of(file: str) -> str | None:
    """Return the CDI kind of a file with this name; None where the name is not one of ours."""
    match = FILE.fullmatch(file)
    return KINDS[match[1].partition("-")[0]] if match else None


def mps_pipe(identity: str) -> str:
    """Return the node's folder with the sockets of an MPS daemon."""
    return f"{MPS_FOLDER}/{identity}/pipe"


def mps_identity(claim_uid: str) -> str:
    """Return the name of the MPS daemon of a claim."""
    return claim_uid.replace("-", "")


def claim_mount(file: str) -> str | None:
    """Return the one folder of the node that a claim's file may mount; None for any other file."""
    match = FILE.fullmatch(file)
    kind, _, uid = match[1].partition("-") if match else ("", "", "")
    return mps_pipe(mps_identity(uid)) if kind == "claim" else None


def node_fault(path: str) -> str | None:
    """Return why a path is not an accelerator's device node; None where it is one."""
    if ".." in path:
        return "a path with '..' is not allowed"
    if not _NODE.fullmatch(path):
        return "not the device node of an accelerator"
    address = usb_address(path)
    if address and not (address[0] and 2 <= address[1] <= _USB_LAST):
        return "this number belongs to a root hub, or to no USB device"
    return _NEVER.get(path)


def usb_address(path: str) -> tuple[int, int] | None:
    """Return bus and number of a USB device's node."""
    match = _USB.fullmatch(path)
    return (int(match[1]), int(match[2])) if match else None


def usb_minor(bus: int, number: int) -> int:
    """Return the minor number of a USB device's node; the major is 189."""
    return (bus - 1) * 128 + number - 1


def env_fault(setting: str) -> str | None:
    """Return why an environment variable may not be set; None where it may."""
    name, equals, value = setting.partition("=")
    if not equals:
        return "must be NAME=value"
    rule = next((allowed for known, allowed in _ENV_RULES if known.fullmatch(name)), None)
    if rule is None:
        return "this variable is not allowed"
    if len(value) > VALUE_LIMIT:
        return f"the value is longer than {VALUE_LIMIT} characters"
    return None if rule.fullmatch(value) else "the value has characters that are not allowed"
