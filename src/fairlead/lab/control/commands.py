"""The command line of every program of a lab: pure text, from a lab's folder and ports."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.lab.control.certs import SERVICES

PLACEHOLDER_ADDRESS: Final = "192.0.2.1"
"""An address that exists nowhere (RFC 5737): where no pod runs, none asks for the API server's."""
STAGES: Final = ("node-initialize.yaml", "pod-ready.yaml", "pod-complete.yaml", "pod-delete.yaml")
"""What kwok's nodes and pods go through; without any it refuses to start."""
KWOK_ANNOTATION: Final = ("kwok.x-k8s.io/node", "fake")
"""The annotation that gives a node to kwok."""
_KWOK_AT_ONCE: Final = 16
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
"""The ports that a profile takes on the host's loopback; in the node profile only the way in."""
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
"""The usual ports, for the network namespace of a node, where nobody else is."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Where the programs of one control plane keep their things, and where they listen."""

    folder: Path
    ports: Mapping[str, int]
    address: str = ""
    """The API server's address for pods; empty: none run here, and it listens on the loopback alone."""

    @property
    def keys(self) -> Path:
        """The folder of keys."""
        return self.folder / "keys"

    @property
    def server(self) -> str:
        """The API server, as its neighbours call it."""
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    def kubeconfig(self, program: str) -> Path:
        """Return the kubeconfig of a program beside the API server."""
        return self.keys / f"{program}.kubeconfig"


def etcd(site: ControlPlane) -> list[str]:
    """Return etcd's arguments: it forgets what a power cut would, and answers sooner for it."""
    client, peer = (f"http://127.0.0.1:{site.ports[name]}" for name in ("etcd", "etcd-peer"))
    return [
        f"--data-dir={site.folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]


def api_server(site: ControlPlane, *, controllers: bool) -> list[str]:
    """Return the API server's arguments.

    Without controllers nobody makes the service accounts that pods must have, so they need not have one.
    """
    keys = site.keys
    arguments = [
        f"--etcd-servers=http://127.0.0.1:{site.ports['etcd']}",
        f"--secure-port={site.ports['kube-apiserver']}",
        # 0.0.0.0 is every address of a network that holds nothing but the lab.
        f"--bind-address={'0.0.0.0' if site.address else '127.0.0.1'}",  # noqa: S104  # see above
        f"--advertise-address={site.address or PLACEHOLDER_ADDRESS}",
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
        # A lab is one user's own: he may use all of it at once.
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1000",
    ]
    if not controllers:
        arguments.append("--disable-admission-plugins=ServiceAccount")
    if site.address:
        arguments += [
            f"--kubelet-client-certificate={keys / 'kubelet-client.crt'}",
            f"--kubelet-client-key={keys / 'kubelet-client.key'}",
            f"--kubelet-certificate-authority={keys / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
        ]
    return arguments


def heartbeat(nodes: int) -> int:
    """Return the seconds between two signs of life of a node.

    10, as of a kubelet; the more nodes kwok plays the longer, because 5,000 of them would keep one of two
    processor cores busy with nothing else.
    """
    return max(10, nodes // 40)


def controller_manager(site: ControlPlane, nodes: int) -> list[str]:
    """Return the controller manager's arguments; its usual rate limit would double a node's start."""
    keys = site.keys
    return [
        f"--kubeconfig={site.kubeconfig('kube-controller-manager')}",
        f"--service-account-private-key-file={keys / 'sa.key'}",
        f"--root-ca-file={keys / 'ca.crt'}",
        "--use-service-account-credentials",
        # It would write to every node, again and again as their number grows, what only kubelets of very
        # large clusters read.
        "--controllers=*,-ttl-controller",
        f"--node-monitor-grace-period={5 * heartbeat(nodes)}s",
        "--kube-api-qps=2000",
        "--kube-api-burst=2000",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={site.ports['kube-controller-manager']}",
        f"--cluster-signing-cert-file={keys / 'ca.crt'}",
        f"--cluster-signing-key-file={keys / 'ca.key'}",
        # It makes this folder where there is none, and would do so in the host's /usr.
        f"--flex-volume-plugin-dir={site.folder / 'volume-plugins'}",
        *_answering(site.kubeconfig("kube-controller-manager")),
    ]


def scheduler(site: ControlPlane) -> list[str]:
    """Return the scheduler's arguments."""
    return [
        f"--config={site.folder / 'scheduler.yaml'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={site.ports['kube-scheduler']}",
        *_answering(site.kubeconfig("kube-scheduler")),
    ]


def _answering(kubeconfig: Path) -> list[str]:
    """Return what lets a program ask the API server who may read its metrics."""
    return [f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"]


def kwok(site: ControlPlane, stages: Mapping[str, Path], nodes: int) -> list[str]:
    """Return kwok's arguments: it plays the nodes that ask for it, and no others."""
    return [
        f"--kubeconfig={site.kubeconfig('admin')}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={'='.join(KWOK_ANNOTATION)}",
        "--cidr=10.0.0.0/8",
        "--node-ip=10.0.0.1",
        f"--node-lease-duration-seconds={4 * heartbeat(nodes)}",
        f"--server-address=127.0.0.1:{site.ports['kwok']}",
        "--v=WARN",  # else it writes a line for each heartbeat of each node
        f"--config={site.folder / 'kwok.yaml'}",
        *(f"--config={stages[name]}" for name in STAGES),
    ]


def kwok_config() -> str:
    """Return kwok's configuration: it does four things at a time unless told, and waits most of its time."""
    return f"""\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  nodePlayStageParallelism: {_KWOK_AT_ONCE}
  podPlayStageParallelism: {_KWOK_AT_ONCE}
  nodeLeaseParallelism: {_KWOK_AT_ONCE}
"""


def kubelet(folder: Path, keys: Path, node: str, address: str, root: str) -> list[str]:
    """Return the arguments of a node's kubelet; `folder` is the node's, `root` the kubelet's own."""
    return [
        f"--config={folder / 'kubelet.yaml'}",
        f"--kubeconfig={keys / f'kubelet-{node}.kubeconfig'}",
        f"--root-dir={root}",
        f"--cert-dir={root}/pki",
        f"--hostname-override={node}",
        f"--node-ip={address}",
    ]


def proxy(keys: Path, node: str, pods: str) -> list[str]:
    """Return the arguments of a node's kube-proxy; it must not turn the host's knobs."""
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
