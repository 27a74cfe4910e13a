"""Check the health of a running lab's programs, each by its own endpoint."""

import sys
from pathlib import Path
from typing import Final

from fairlead.lab.control import populate
from fairlead.lab.control.commands import DEFAULT_PORTS
from fairlead.lab.csi import start as volumes
from fairlead.lab.node import inside
from fairlead.lab.run import probe, ready
from fairlead.lab.run.state import Lab, LabProgram, NodeNamespaces

_ENDPOINTS: Final = {
    "etcd": ("http", "/health"),
    "kube-controller-manager": ("https", "/healthz"),
    "kube-proxy": ("http", "/livez"),
    "kube-scheduler": ("https", "/readyz"),
    "kubelet": ("http", "/healthz"),
    "kwok": ("http", "/healthz"),
    "prometheus": ("http", "/-/ready"),
}


def is_healthy(lab: Lab, program: LabProgram, since: float = 0.0) -> bool:
    """Return whether a program works, as its endpoint and the API server show, and has done so `since`."""
    if volumes.is_driver(program):
        return volumes.is_ready(lab, program)
    binary = Path(program.argv[0])
    kind = binary.name
    node_ns = next((candidate for candidate in lab.namespaces if candidate.node == program.node), None)
    if kind in _ENDPOINTS and not _responds_ok(_url(lab, kind, node_ns), node_ns):
        return False
    if kind == "containerd" and node_ns is not None:
        ctr = binary.with_name("ctr")
        return inside.run(node_ns, [str(ctr), "-a", lab.layout.socket, "version"]).returncode == 0
    port, keys = lab.ports["kube-apiserver"], lab.folder / "keys"
    if not ready.responds_ok(port, "/readyz", ready.admin_tls_context(keys)):
        return False
    return kind != "kubelet" or populate.is_kubelet_ready(
        populate.admin_config(keys, lab.server), program.node, since
    )


def _url(lab: Lab, kind: str, node_ns: NodeNamespaces | None) -> str:
    scheme, path = _ENDPOINTS[kind]
    ports = lab.ports if node_ns is None else DEFAULT_PORTS
    return f"{scheme}://127.0.0.1:{ports[kind]}{path}"


def _responds_ok(url: str, node_ns: NodeNamespaces | None) -> bool:
    if node_ns is None:
        return probe.is_healthy(url)
    argv = [sys.executable, "-I", "-S", probe.__file__, url]
    return inside.run_in_network(node_ns, argv).returncode == 0
