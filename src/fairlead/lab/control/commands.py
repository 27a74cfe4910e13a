"""The command line of every program of a lab, built from the lab's folder and ports alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.lab.control.certs import SERVICES

PLACEHOLDER_ADDRESS: Final = "192.0.2.1"
"""An address reserved for documentation (RFC 5737), for labs without pods that would use it."""
STAGES: Final = ("node-initialize.yaml", "pod-ready.yaml", "pod-complete.yaml", "pod-delete.yaml")
"""The stages of kwok's nodes and pods; kwok refuses to start without any."""
KWOK_ANNOTATION: Final = ("kwok.x-k8s.io/node", "fake")
"""The annotation by which kwok manages a node."""
_KWOK_PARALLELISM: Final = 16
PORTS: Final = {
    "api": ("etcd", "etcd-peer", "kube-apiserver"),
    "control": (
        "etcd",
        "etcd-peer",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
    ),
    "node": ("kube-apiserver",),
}
"""The ports that a profile takes on the host's loopback; the node profile takes only the relay's."""
DEFAULT_PORTS: Final = {
    "etcd": 2379,
    "etcd-peer": 2380,
    "kube-apiserver": 6443,
    "kube-controller-manager": 10257,
    "kube-proxy": 10256,
    "kube-scheduler": 10259,
    "kubelet": 10248,
    "kwok": 10247,
    "prometheus": 9090,
}
"""The usual ports, for a node's own network namespace, where no other program listens."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The folder and the ports of one control plane."""

    folder: Path
    ports: Mapping[str, int]
    address: str = ""
    """The API server's address for pods; empty: no pods run, and it listens on the loopback alone."""

    @property
    def keys(self) -> Path:
        """The folder of keys."""
        return self.folder / "keys"

    @property
    def server(self) -> str:
        """The API server's URL for the other programs of the control plane."""
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    def kubeconfig(self, program: str) -> Path:
        """Return the kubeconfig of a program of the control plane."""
        return self.keys / f"{program}.kubeconfig"


def etcd(plane: ControlPlane) -> list[str]:
    """Return etcd's arguments: without fsync it may lose data in a power cut, and answers sooner."""
    client, peer = (f"http://127.0.0.1:{plane.ports[name]}" for name in ("etcd", "etcd-peer"))
    return [
        f"--data-dir={plane.folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]


def api_server(plane: ControlPlane, *, controllers: bool) -> list[str]:
    """Return the API server's arguments.

    Without controllers no service accounts are created, so the admission plugin that requires them is off.
    """
    keys = plane.keys
    arguments = [
        f"--etcd-servers=http://127.0.0.1:{plane.ports['etcd']}",
        f"--secure-port={plane.ports['kube-apiserver']}",
        # 0.0.0.0 is every address of a network namespace that holds nothing but the lab.
        f"--bind-address={'0.0.0.0' if plane.address else '127.0.0.1'}",  # noqa: S104  # see above
        f"--advertise-address={plane.address or PLACEHOLDER_ADDRESS}",
        f"--tls-cert-file={keys / 'apiserver.crt'}",
        f"--tls-private-key-file={keys / 'apiserver.key'}",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--service-cluster-ip-range={SERVICES}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys / 'sa.pub'}",
        f"--service-account-signing-key-file={keys / 'sa.key'}",
        "--allow-privileged=true",
        # A lab serves one user, who may use its full capacity.
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1000",
    ]
    if not controllers:
        arguments.append("--disable-admission-plugins=ServiceAccount")
    if plane.address:
        arguments += [
            f"--kubelet-client-certificate={keys / 'kubelet-client.crt'}",
            f"--kubelet-client-key={keys / 'kubelet-client.key'}",
            f"--kubelet-certificate-authority={keys / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
        ]
    return arguments


def heartbeat(nodes: int) -> int:
    """Return the seconds between two heartbeats of a node.

    10, like a kubelet's, and longer with more kwok nodes: at that rate 5,000 of them would keep one of two
    processor cores busy.
    """
    return max(10, nodes // 40)


def controller_manager(plane: ControlPlane, nodes: int) -> list[str]:
    """Return the controller manager's arguments; its default rate limit would double a node's start time."""
    keys = plane.keys
    return [
        f"--kubeconfig={plane.kubeconfig('kube-controller-manager')}",
        f"--service-account-private-key-file={keys / 'sa.key'}",
        f"--root-ca-file={keys / 'ca.crt'}",
        "--use-service-account-credentials",
        # The TTL controller rewrites every node as their number grows, for an annotation that only kubelets
        # of very large clusters read.
        "--controllers=*,-ttl-controller",
        f"--node-monitor-grace-period={5 * heartbeat(nodes)}s",
        "--kube-api-qps=2000",
        "--kube-api-burst=2000",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={plane.ports['kube-controller-manager']}",
        f"--cluster-signing-cert-file={keys / 'ca.crt'}",
        f"--cluster-signing-key-file={keys / 'ca.key'}",
        # The controller manager creates this folder; its default is in the host's /usr.
        f"--flex-volume-plugin-dir={plane.folder / 'volume-plugins'}",
        *_delegated_auth(plane.kubeconfig("kube-controller-manager")),
    ]


def scheduler(plane: ControlPlane) -> list[str]:
    """Return the scheduler's arguments."""
    return [
        f"--config={plane.folder / 'scheduler.yaml'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={plane.ports['kube-scheduler']}",
        *_delegated_auth(plane.kubeconfig("kube-scheduler")),
    ]


def _delegated_auth(kubeconfig: Path) -> list[str]:
    """Return the arguments with which a program delegates access to its metrics to the API server."""
    return [f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"]


def kwok(plane: ControlPlane, stages: Mapping[str, Path], nodes: int) -> list[str]:
    """Return kwok's arguments: it simulates the nodes that carry its annotation, and no others."""
    return [
        f"--kubeconfig={plane.kubeconfig('admin')}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={'='.join(KWOK_ANNOTATION)}",
        "--cidr=10.0.0.0/8",
        "--node-ip=10.0.0.1",
        f"--node-lease-duration-seconds={4 * heartbeat(nodes)}",
        f"--server-address=127.0.0.1:{plane.ports['kwok']}",
        "--v=WARN",  # otherwise it logs a line for each heartbeat of each node
        f"--config={plane.folder / 'kwok.yaml'}",
        *(f"--config={stages[name]}" for name in STAGES),
    ]


def kwok_config() -> str:
    """Return kwok's configuration; with its default parallelism of four it spends its time waiting."""
    return f"""\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  nodePlayStageParallelism: {_KWOK_PARALLELISM}
  podPlayStageParallelism: {_KWOK_PARALLELISM}
  nodeLeaseParallelism: {_KWOK_PARALLELISM}
"""


def kubelet(folder: Path, keys: Path, node: str, address: str, root: str) -> list[str]:
    """Return the arguments of a node's kubelet; `folder` is the node's, `root` the kubelet's."""
    return [
        f"--config={folder / 'kubelet.yaml'}",
        f"--kubeconfig={keys / f'kubelet-{node}.kubeconfig'}",
        f"--root-dir={root}",
        f"--cert-dir={root}/pki",
        f"--hostname-override={node}",
        f"--node-ip={address}",
    ]


def proxy(keys: Path, node: str, pods: str) -> list[str]:
    """Return the arguments of a node's kube-proxy; it must not change the host's sysctls."""
    return [
        f"--kubeconfig={keys / 'kube-proxy.kubeconfig'}",
        "--proxy-mode=nftables",
        f"--hostname-override={node}",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
        "--metrics-bind-address=127.0.0.1:10249",
        f"--cluster-cidr={pods}",
    ]
