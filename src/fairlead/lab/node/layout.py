"""The paths of a real node's files: kubeadm's, or those of smaller distributions."""

from dataclasses import dataclass
from typing import Final

from fairlead.errors import LabError


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """The paths of one distribution; all are below /var/lib and /run, which each node has for itself."""

    name: str
    kubelet: str
    """The kubelet's folder."""
    containerd: str
    """containerd's root folder: images and containers."""
    state: str
    """containerd's state folder: running tasks."""
    socket: str


PLAIN: Final = NodeLayout(
    "plain",
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/run/containerd",
    "/run/containerd/containerd.sock",
)
LAYOUTS: Final = (
    PLAIN,
    NodeLayout(
        "k3s",
        "/var/lib/kubelet",
        "/var/lib/rancher/k3s/agent/containerd",
        "/run/k3s/containerd",
        "/run/k3s/containerd/containerd.sock",
    ),
    NodeLayout(
        "k0s",
        "/var/lib/k0s/kubelet",
        "/var/lib/k0s/containerd",
        "/run/k0s/containerd",
        "/run/k0s/containerd.sock",
    ),
)
NAMES: Final = tuple(layout.name for layout in LAYOUTS)


def find_layout(name: str) -> NodeLayout:
    """Return the layout of this name."""
    for layout in LAYOUTS:
        if layout.name == name:
            return layout
    raise LabError(f"no layout {name!r}", hint=f"known: {', '.join(NAMES)}")
