"""Where a real node keeps its files: as kubeadm has them, or as smaller distributions do."""

from dataclasses import dataclass
from typing import Final

from fairlead.errors import LabError


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """The paths of one distribution; all of them below /var/lib and /run, which are a node's own."""

    name: str
    kubelet: str
    """The kubelet's folder."""
    containerd: str
    """Where containerd keeps images and containers."""
    state: str
    """Where containerd keeps what runs."""
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
    """Return a layout by its name."""
    for layout in LAYOUTS:
        if layout.name == name:
            return layout
    raise LabError(f"no layout {name!r}", hint=f"known: {', '.join(NAMES)}")
