"""CDI specs: one that is allowed, and an attacker's changes to it."""

import copy
from typing import Any

ACCELERATORS = "fairlead.dev-accelerators.json"
CLAIM = "fairlead.dev-claim-0f8fad5b-d9cb-469f-a165-70867728950e.json"

Spec = dict[str, Any]


def good() -> Spec:
    """Return a spec with everything that is allowed."""
    return {
        "cdiVersion": "0.5.0",
        "kind": "fairlead.dev/accelerator",
        "devices": [
            {
                "name": "coral-usb-1-1",
                "containerEdits": {
                    "env": ["FAIRLEAD_DEVICE=usb:1-1", "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2"],
                    "deviceNodes": [
                        {"path": "/dev/apex_0", "hostPath": "/dev/apex_0", "type": "c", "permissions": "r"},
                        {"path": "/dev/bus/usb/002/007", "major": 189, "minor": 134},
                    ],
                },
            },
            {"name": "other", "containerEdits": {"env": ["FAIRLEAD_DEVICE=x"]}},
        ],
    }


def claim(uid: str = CLAIM[19:55]) -> tuple[str, Spec]:
    """Return the file of a claim, and a spec for it."""
    edits = {"env": ["FAIRLEAD_MEMORY_MIB=512"]}
    spec = {"cdiVersion": "0.3.0", "kind": "fairlead.dev/claim"}
    return f"fairlead.dev-claim-{uid}.json", {**spec, "devices": [{"name": "a", "containerEdits": edits}]}


CLAIM_MOUNT = {
    "hostPath": f"/run/fairlead-mps/{CLAIM[19:55].replace('-', '')}/pipe",
    "containerPath": "/tmp/nvidia-mps",
    "options": ["ro", "nosuid", "nodev", "noexec", "bind"],
}
"""The one mount of a claim: the sockets of its own MPS daemon."""


def limited_claim(**changes: Any) -> tuple[str, Spec]:
    """Return the file of a claim that is limited; a change of its mount to `...` removes a field."""
    file, spec = claim()
    mount = {key: value for key, value in {**CLAIM_MOUNT, **changes}.items() if value is not ...}
    edits = spec["devices"][0]["containerEdits"]
    edits["env"].append("CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps")
    edits["mounts"] = [mount]
    return file, spec


def bent(path: str, value: Any) -> Spec:
    """Return the good spec with one change: `path` such as `devices.0.name`; `None` removes it."""
    spec = copy.deepcopy(good())
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".") if part]
    place: Any = spec
    for part in parents:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return spec


EDITS, NODE, USB = (
    "devices.0.containerEdits",
    "devices.0.containerEdits.deviceNodes.0",
    "devices.0.containerEdits.deviceNodes.1",
)
WHERE, AT, USB_AT = (
    "devices[0].containerEdits",
    "devices[0].containerEdits.deviceNodes[0]",
    "devices[0].containerEdits.deviceNodes[1]",
)
NO_NODE = "not the device node of an accelerator"
HOOK = [{"hookName": "createRuntime", "path": "/bin/sh", "args": ["sh", "-c", "id"]}]
MOUNT = [{"hostPath": "/", "containerPath": "/host"}]

HOSTILE: list[tuple[str, Any, str]] = [
    # features of CDI that are equal to root on the node
    (f"{EDITS}.hooks", HOOK, f"{WHERE}.hooks: not allowed"),
    (f"{EDITS}.mounts", MOUNT, f"{WHERE}.mounts: not allowed"),
    (f"{EDITS}.intelRdt", {"closID": "/"}, f"{WHERE}.intelRdt: not allowed"),
    (f"{EDITS}.additionalGids", [0], f"{WHERE}.additionalGids: not allowed"),
    (f"{EDITS}.netDevices", [{"hostInterfaceName": "eth0", "name": "e"}], f"{WHERE}.netDevices: not allowed"),
    ("containerEdits", {"hooks": HOOK}, "containerEdits: not allowed"),
    ("annotations", {"a": "b"}, "annotations: not allowed"),
    ("devices.0.annotations", {"a": "b"}, "devices[0].annotations: not allowed"),
    # readers of the file accept keys in any letter case
    (f"{EDITS}.Hooks", HOOK, f"{WHERE}.Hooks: not allowed"),
    (f"{EDITS}.MOUNTS", MOUNT, f"{WHERE}.MOUNTS: not allowed"),
    ("devices.0.ContainerEdits", {"mounts": MOUNT}, "devices[0].ContainerEdits: not allowed"),
    (f"{NODE}.HostPath", "/dev/sda", f"{AT}.HostPath: not allowed"),
    (f"{EDITS}.hook\u017f", HOOK, f"{WHERE}.'hook\\u017f': not allowed"),
    (f"{NODE}.fileMode", 0o666, f"{AT}.fileMode: not allowed"),
    (f"{NODE}.uid", 0, f"{AT}.uid: not allowed"),
    (f"{NODE}.gid", 0, f"{AT}.gid: not allowed"),
    # the kind of another vendor, or a version with another meaning
    ("kind", "nvidia.com/gpu", "kind: 'nvidia.com/gpu' is not allowed, only 'fairlead.dev/accelerator'"),
    ("kind", "fairlead.dev/claim", "kind: 'fairlead.dev/claim' is not allowed"),
    ("kind", "fairlead.dev/accelerator\n", "kind: 'fairlead.dev/accelerator\\n' is not allowed"),
    ("cdiVersion", "9.9.9", "cdiVersion: '9.9.9' is not allowed"),
    ("cdiVersion", 0.5, "cdiVersion: 0.5 is not allowed"),
    ("cdiVersion", None, "cdiVersion: missing"),
    # device nodes
    (f"{NODE}.path", "/dev/sda", f"{AT}.path: '/dev/sda': {NO_NODE}"),
    (f"{NODE}.path", "/dev/mem", NO_NODE),
    (f"{NODE}.path", "/dev/kmsg", NO_NODE),
    (f"{NODE}.path", "/dev/kvm", NO_NODE),
    (f"{NODE}.path", "/dev/fuse", NO_NODE),
    (f"{NODE}.path", "/dev/vfio/noiommu-0", NO_NODE),
    (f"{NODE}.path", "/dev/input/event0", NO_NODE),
    (f"{NODE}.path", "/dev", NO_NODE),
    (f"{NODE}.path", "/dev/dri", NO_NODE),
    (f"{NODE}.path", "/dev/bus/usb", NO_NODE),
    (f"{NODE}.path", "/dev/bus/usb/001", NO_NODE),
    (f"{NODE}.path", "/", NO_NODE),
    (f"{NODE}.path", "", NO_NODE),
    (f"{NODE}.path", "dev/apex_0", NO_NODE),
    (f"{NODE}.path", "//dev/apex_0", NO_NODE),
    (f"{NODE}.path", "/dev/apex_0/", NO_NODE),
    (f"{NODE}.path", "/dev/apex_0\n", NO_NODE),
    (f"{NODE}.path", "/dev/apex_0\0", NO_NODE),
    (f"{NODE}.path", "/dev/apex_\u0660", NO_NODE),
    (f"{NODE}.path", "/dev/apex_0\ud800", NO_NODE),
    (f"{NODE}.path", "/dev/hailo0/../sda", "a path with '..' is not allowed"),
    (f"{NODE}.path", "/dev/tenstorrent/..", "a path with '..' is not allowed"),
    (f"{NODE}.path", "/dev/nvgpu/igpu0/../../sda", "a path with '..' is not allowed"),
    (f"{NODE}.path", "/dev/nvhost-a/b", NO_NODE),
    (f"{NODE}.path", "/dev/./sda", NO_NODE),
    (f"{NODE}.path", "/dev/nvgpu/./ctrl", NO_NODE),
    (f"{NODE}.path", "/dev/nvhost-", NO_NODE),
    (f"{NODE}.path", "/dev/nvidia-caps/nvidia-cap1", "it configures the partitions of every GPU"),
    (f"{NODE}.path", "/dev/bus/usb/001/001", "belongs to a root hub"),
    (f"{NODE}.path", "/dev/bus/usb/000/005", "belongs to a root hub"),
    (f"{NODE}.path", "/dev/bus/usb/001/128", "belongs to a root hub"),
    (f"{NODE}.path", ["/dev/apex_0"], f"{AT}.path: must be a string"),
    (f"{NODE}.path", None, f"{AT}.path: missing"),
    (f"{NODE}.hostPath", "/dev/sda", f"{AT}.hostPath: '/dev/sda' is not allowed"),
    (f"{NODE}.hostPath", "/dev/apex_1", f"{AT}.hostPath: '/dev/apex_1' is not allowed"),
    (f"{NODE}.hostPath", "", f"{AT}.hostPath: '' is not allowed"),
    (f"{NODE}.hostPath", {}, f"{AT}.hostPath: an object is not allowed"),
    (f"{NODE}.type", "b", f"{AT}.type: 'b' is not allowed, only 'c'"),
    (f"{NODE}.type", "p", f"{AT}.type: 'p' is not allowed"),
    (f"{NODE}.type", "", f"{AT}.type: '' is not allowed"),
    (f"{NODE}.permissions", "rwm", f"{AT}.permissions: 'rwm' is not allowed"),
    (f"{NODE}.permissions", "", f"{AT}.permissions: '' is not allowed"),
    (f"{NODE}.permissions", "none", f"{AT}.permissions: 'none' is not allowed"),
    # numbers: -1 is every device
    (f"{NODE}.major", 8, f"{AT}: major and minor are allowed for USB devices only"),
    (f"{NODE}.minor", 0, f"{AT}: major and minor are allowed for USB devices only"),
    (f"{NODE}.major", -1, f"{AT}: major and minor are allowed for USB devices only"),
    (f"{USB}.major", -1, f"{USB_AT}.major: -1 is not allowed, only 189"),
    (f"{USB}.major", 8, f"{USB_AT}.major: 8 is not allowed"),
    (f"{USB}.major", 189.0, f"{USB_AT}.major: 189.0 is not allowed"),
    (f"{USB}.major", "189", f"{USB_AT}.major: '189' is not allowed"),
    (f"{USB}.major", None, f"{USB_AT}.major: None is not allowed"),
    (f"{USB}.minor", 135, f"{USB_AT}.minor: 135 is not allowed, only 134"),
    (f"{USB}.minor", -1, f"{USB_AT}.minor: -1 is not allowed"),
    (f"{USB}.minor", None, f"{USB_AT}.minor: None is not allowed"),
    # the environment
    (f"{EDITS}.env.0", "LD_PRELOAD=/tmp/x.so", "this variable is not allowed"),
    (f"{EDITS}.env.0", "PATH=/tmp", "this variable is not allowed"),
    (f"{EDITS}.env.0", "fairlead_X=1", "this variable is not allowed"),
    (f"{EDITS}.env.0", "FAIRLEAD_=1", "this variable is not allowed"),
    (f"{EDITS}.env.0", "FAIRLEAD_X\n=1", "this variable is not allowed"),
    (f"{EDITS}.env.0", "X\nFAIRLEAD_X=1", "this variable is not allowed"),
    (f"{EDITS}.env.0", "NVIDIA_REQUIRE_CUDA=x", "this variable is not allowed"),
    (f"{EDITS}.env.0", "NVIDIA_MIG_CONFIG_DEVICES=all", "this variable is not allowed"),
    (f"{EDITS}.env.0", "FAIRLEAD_X", "must be NAME=value"),
    (f"{EDITS}.env.0", "=1", "this variable is not allowed"),
    (f"{EDITS}.env.0", "FAIRLEAD_X=a\nLD_PRELOAD=b", "the value has characters that are not allowed"),
    (f"{EDITS}.env.0", "FAIRLEAD_X=\0", "the value has characters that are not allowed"),
    (f"{EDITS}.env.0", "FAIRLEAD_X=\u00e9", "the value has characters that are not allowed"),
    (f"{EDITS}.env.0", f"FAIRLEAD_X={'a' * 4097}", "the value is longer than 4096 characters"),
    (f"{EDITS}.env.0", f"FAIRLEAD_{'A' * 129}=1", "this variable is not allowed"),
    (f"{EDITS}.env.0", "NVIDIA_VISIBLE_DEVICES=other.com/class=dev", "the value has characters"),
    (f"{EDITS}.env.0", "NVIDIA_VISIBLE_DEVICES=/var/run/x", "the value has characters"),
    (f"{EDITS}.env.0", "NVIDIA_DRIVER_CAPABILITIES=compute;id", "the value has characters"),
    (f"{EDITS}.env.0", 1, f"{WHERE}.env[0]: must be a string"),
    (f"{EDITS}.env.0", "CUDA_MPS_PIPE_DIRECTORY=/tmp", "the value has characters"),
    (f"{EDITS}.env.0", "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps/..", "the value has characters"),
    (f"{EDITS}.env.0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=2;5", "the value has characters"),
    (f"{EDITS}.env.0", "CUDA_MPS_LOG_DIRECTORY=/tmp", "this variable is not allowed"),
    (f"{EDITS}.mounts", [CLAIM_MOUNT], f"{WHERE}.mounts: not allowed"),
    (f"{EDITS}.mounts", [], f"{WHERE}.mounts: not allowed"),
    (f"{EDITS}.env", {"FAIRLEAD_X": "1"}, f"{WHERE}.env: must be a list"),
    (f"{EDITS}.env", ["FAIRLEAD_X=1"] * 65, f"{WHERE}.env: 65 are too many, at most 64"),
    # shapes
    ("devices", [], "devices: must not be empty"),
    ("devices", {}, "devices: must be a list"),
    ("devices", None, "devices: missing"),
    ("devices", [1], "devices[0]: must be an object"),
    ("devices", [{"name": "a"}], "devices[0].containerEdits: missing"),
    ("devices.0.name", "", "devices[0].name: '' is not a name that CDI allows"),
    ("devices.0.name", "a/b", "devices[0].name: 'a/b' is not"),
    ("devices.0.name", "-a", "devices[0].name: '-a' is not"),
    ("devices.0.name", "a\n", "devices[0].name: 'a\\n' is not"),
    ("devices.0.name", "a" * 254, "is not a name that CDI allows"),
    ("devices.0.name", "other", "devices[1].name: 'other' is named twice"),
    ("devices.0.containerEdits", {}, f"{WHERE}: must name something"),
    ("devices.0.containerEdits", {"env": []}, f"{WHERE}: must name something"),
    ("devices.0.containerEdits", [], f"{WHERE}: must be an object"),
    (f"{EDITS}.deviceNodes", "x", f"{WHERE}.deviceNodes: must be a list"),
    (f"{EDITS}.deviceNodes", [{"path": "/dev/apex_0"}] * 513, "513 are too many, at most 512"),
    (NODE, "/dev/apex_0", f"{AT}: must be an object"),
]
"""The changed path of the good spec, its value, and the start or a part of the refusal."""

FILES = [
    "accelerators.json",
    "fairlead.dev-accelerators.json\n",
    "fairlead.dev-accelerators.yaml",
    "../fairlead.dev-accelerators.json",
    "/etc/cdi/fairlead.dev-accelerators.json",
    "fairlead.dev-accelerators.json/..",
    "./fairlead.dev-accelerators.json",
    "fairlead.dev-claim-.json",
    "fairlead.dev-claim-0f8fad5b.json",
    "fairlead.dev-claim-0F8FAD5B-d9cb-469f-a165-70867728950e.json",
    "fairlead.dev-claim-0f8fad5b/d9cb-469f-a165-70867728950e.json",
    "fairlead.dev-claim-....................................json",
    f"fairlead.dev-claim-{'-' * 36}.json",
    f"fairlead.dev-claim-{'0' * 36}.json",
    "fairlead.dev-claim-0f8fad5bd-9cb-469f-a165-70867728950e.json",
    "fairlead.dev-claim-0f8fad5b-d9cb-469f-a165-70867728950.json",
    "fairleadXdev-accelerators.json",
    "nvidia.com-gpu.json",
    "",
    "\0",
    ".",
    "..",
]
"""File names that are not ours."""
