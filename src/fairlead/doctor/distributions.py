"""Where distributions of Kubernetes keep the kubelet's files and containerd's socket."""

from dataclasses import dataclass
from typing import Final

from fairlead.host import Host

DEFAULT_KUBELET_DIR: Final = "/var/lib/kubelet"
"""The kubelet's folder unless an option moves it: the chart's default."""


@dataclass(frozen=True, slots=True)
class KubernetesDistribution:
    """A distribution, the paths that identify it on a machine, and its files."""

    name: str
    signs: tuple[str, ...]
    """Paths of which each one shows that the distribution is installed."""
    kubelet: tuple[str, ...] = (DEFAULT_KUBELET_DIR,)
    """Folders in which its kubelet may keep its files, the default first."""
    socket: str = "/run/containerd/containerd.sock"
    service: str = "kubelet"
    certificate: str = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    """The client certificate that the kubelet presents to the API server."""
    swap: bool = False
    """Whether its kubelet starts with swap on, without configuration."""


DISTRIBUTIONS: Final = (
    KubernetesDistribution(
        "k3s",
        ("/var/lib/rancher/k3s/agent", "/run/k3s", "/etc/rancher/k3s"),
        # The second folder: k3s without root, and k3s before 1.0.
        (DEFAULT_KUBELET_DIR, "/var/lib/rancher/k3s/agent/kubelet"),
        "/run/k3s/containerd/containerd.sock",
        "k3s or k3s-agent",
        "/var/lib/rancher/k3s/agent/client-kubelet.crt",
        swap=True,
    ),
    KubernetesDistribution(
        "rke2",
        ("/var/lib/rancher/rke2/agent", "/etc/rancher/rke2"),
        (DEFAULT_KUBELET_DIR,),
        "/run/k3s/containerd/containerd.sock",
        "rke2-server or rke2-agent",
        "/var/lib/rancher/rke2/agent/client-kubelet.crt",
        swap=True,
    ),
    KubernetesDistribution(
        "microk8s",
        ("/var/snap/microk8s",),
        ("/var/snap/microk8s/common/var/lib/kubelet",),
        "/var/snap/microk8s/common/run/containerd.sock",
        "snap.microk8s.daemon-kubelite",
        swap=True,
    ),
    KubernetesDistribution(
        "k0s",
        ("/var/lib/k0s",),
        ("/var/lib/k0s/kubelet",),
        "/run/k0s/containerd.sock",
        "k0sworker",
        "/var/lib/k0s/kubelet/pki/kubelet-client-current.pem",
    ),
    KubernetesDistribution("kubeadm", ("/etc/kubernetes/kubelet.conf", f"{DEFAULT_KUBELET_DIR}/config.yaml")),
)


def detect_distribution(host: Host) -> KubernetesDistribution | None:
    """Return the distribution on a machine; None where no kubelet is installed yet."""
    return next(
        (distribution for distribution in DISTRIBUTIONS if any(map(host.exists, distribution.signs))), None
    )


def kubelet_folder(host: Host, distribution: KubernetesDistribution) -> str:
    """Return the folder that a distribution's kubelet uses; empty where the kubelet has not run."""
    # Not device-plugins: every kubelet creates that folder in /var/lib/kubelet, wherever its own folder is.
    return next((path for path in distribution.kubelet if host.exists(f"{path}/plugins_registry")), "")
