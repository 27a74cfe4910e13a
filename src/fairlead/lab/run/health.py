"""Whether a program of a lab that runs is well: each kind is asked in its own way."""

import sys
from pathlib import Path
from typing import Final

from fairlead.lab.control import populate
from fairlead.lab.control.commands import DEFAULT_PORTS
from fairlead.lab.node import inside
from fairlead.lab.run import probe, ready
from fairlead.lab.run.state import Lab, LabProgram, NodeNamespaces

_ADDRESSES: Final = {
    "etcd": ("http", "/health"),
    "kube-controller-manager": ("https", "/healthz"),
    "kube-proxy": ("http", "/livez"),
    "kube-scheduler": ("https", "/readyz"),
    "kubelet": ("http", "/healthz"),
    "kwok": ("http", "/healthz"),
    "prometheus": ("http", "/-/ready"),
}


def is_healthy(lab: Lab, program: LabProgram, since: float = 0.0) -> bool:
    """Say whether a program does what it is there for, as far as others can see, and did so `since`."""
    binary = Path(program.argv[0])
    kind = binary.name
    space = next((each for each in lab.namespaces if each.node == program.node), None)
    if kind in _ADDRESSES and not _answers(_address(lab, kind, space), space):
        return False
    if kind == "containerd" and space is not None:
        ctr = binary.with_name("ctr")
        return inside.run(space, [str(ctr), "-a", lab.layout.socket, "version"]).returncode == 0
    port, keys = lab.ports["kube-apiserver"], lab.folder / "keys"
    if not ready.responds_ok(port, "/readyz", ready.admin_tls_context(keys)):
        return False
    return kind != "kubelet" or populate.is_kubelet_ready(
        populate.admin_config(keys, lab.server), program.node, since
    )


def _address(lab: Lab, kind: str, space: NodeNamespaces | None) -> str:
    scheme, path = _ADDRESSES[kind]
    ports = lab.ports if space is None else DEFAULT_PORTS
    return f"{scheme}://127.0.0.1:{ports[kind]}{path}"


def _answers(url: str, space: NodeNamespaces | None) -> bool:
    if space is None:
        return probe.is_healthy(url)
    argv = [sys.executable, "-I", "-S", probe.__file__, url]
    return inside.run_in_network(space, argv).returncode == 0
