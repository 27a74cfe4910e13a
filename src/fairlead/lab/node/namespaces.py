"""Create and enter the namespaces of a node, and connect the nodes to one network.

    host loopback --relay--> node-1 [control plane, kubelet, pods 10.88.1.0/24]
                               | lan, 10.89.0.0/24
                             node-2 [kubelet, pods 10.88.2.0/24]

The first node's namespaces hold the control plane, so that the API server reaches kubelets and services as
in a real cluster. Those of the other nodes are inside the first node's PID namespace: one SIGKILL of the
first node's init ends them all.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.node import cgroups
from fairlead.lab.run import process
from fairlead.lab.run.process import Process
from fairlead.lab.run.state import Lab, NodeNamespaces

PODS: Final = "10.88.0.0/16"
MOST_NODES: Final = 64
_PRIVATE: Final = ("/var/lib", "/var/log", "/run")
"""The folders that each node has for itself; a lab's folder cannot be below one of them."""
_PATIENCE: Final = 10.0
_UNSHARE: Final = ("unshare", "-m", "-u", "-p", "-n", "-f", "--propagation", "private")
_TOOLS: Final = {"unshare": "util-linux", "nsenter": "util-linux", "mount": "mount", "ip": "iproute2"}


def node_name(number: int) -> str:
    """Return the name of a real node; numbers start at 1."""
    return f"node-{number}"


def node_address(number: int) -> str:
    """Return a node's address."""
    return f"10.89.0.{number}"


def pod_range(number: int) -> str:
    """Return the address range of a node's pods."""
    return f"10.88.{number}.0/24"


def obstacle(folder: Path) -> str:
    """Return why real nodes cannot run on this machine; empty if they can."""
    if os.geteuid() != 0:
        return "real nodes need root"
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            return f"real nodes need {tool} (package {package})"
    if any(folder.resolve().is_relative_to(private) for private in _PRIVATE):
        return f"a node's files cannot be in {folder}: set XDG_STATE_HOME to another folder"
    if not any(os.access(tree, os.W_OK) for tree in cgroups.hierarchies()):
        return "real nodes need writable control groups"
    trial = subprocess.run(  # noqa: S603  # no shell; every argument is ours
        [*_UNSHARE, "mount", "-t", "proc", "proc", "/proc"], capture_output=True, check=False, text=True
    )
    lines = trial.stderr.strip().splitlines() or ["no reason given"]
    return f"this machine does not allow new namespaces: {lines[-1]}" if trial.returncode else ""


def file_system(path: Path) -> str:
    """Return the type of the file system that a path is on; empty if it is unknown."""
    longest, kind = -1, ""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        mount, _, rest = line.partition(" - ")
        point = mount.split()[4].encode().decode("unicode_escape")  # the kernel writes a space as \\040
        if path.resolve().is_relative_to(point) and len(point) >= longest:
            longest, kind = len(point), rest.split()[0]
    return kind


def create(
    number: int, folder: Path, lab: Lab, env: Mapping[str, str], first: NodeNamespaces | None
) -> NodeNamespaces:
    """Create a node's namespaces inside the first node's PID namespace; `folder` is the node's."""
    for name in ("kubelet", "containerd", "log", "overlay"):
        (folder / name).mkdir(parents=True)
    node, log = node_name(number), folder / "init.log"
    init = [sys.executable, "-I", "-S", str(Path(__file__).with_name("init.py"))]
    paths = (lab.layout.kubelet, lab.layout.containerd)
    argv = [*_UNSHARE, *init, str(folder), node, node_address(number), *paths]
    if first is not None:
        argv = ["nsenter", "-t", str(first.init.pid), "-p", *argv]
    outer = process.start(argv, log, lab.folder, env)
    until = time.monotonic() + _PATIENCE
    while not (folder / "init.pid").exists():
        if not process.alive(outer) or time.monotonic() > until:
            output = log.read_text(encoding="utf-8", errors="replace").strip()
            raise LabError(f"the namespaces of {node} could not be created:\n{output or 'no reason given'}")
        time.sleep(0.005)
    inner = process.find(int((folder / "init.pid").read_text(encoding="ascii")))
    if inner is None:
        raise LabError(f"the init process of {node} ended immediately")
    return NodeNamespaces(node, node_address(number), inner)


def enter(node_ns: NodeNamespaces, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs a program in all namespaces of a node."""
    return ["nsenter", "-t", str(node_ns.init.pid), "-m", "-u", "-p", "-n", "--", *argv]


def enter_network(node_ns: NodeNamespaces, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs a program of the host in a node's network namespace."""
    return ["nsenter", "-t", str(node_ns.init.pid), "-n", "--", *argv]


def inner_process(outer: Process, patience: float = _PATIENCE) -> Process | None:
    """Return the program that an `nsenter` forked into a PID namespace; None if it has ended."""
    until = time.monotonic() + patience
    while process.alive(outer) and time.monotonic() < until:
        with suppress(OSError):
            # Since Linux 4.2, if the kernel has checkpoint support; otherwise all of /proc is searched.
            pids = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(encoding="ascii").split()
            if not pids:
                time.sleep(0.002)
                continue
            return process.find(int(pids[0]))
        children = process.children(outer.pid)
        if children:
            return children[0]
        time.sleep(0.01)
    return None


def join(node_namespaces: Sequence[NodeNamespaces]) -> None:
    """Connect the nodes to one network."""
    first = node_namespaces[0]
    links = ["link add lan type bridge"]
    for number, node_ns in enumerate(node_namespaces[1:], 2):
        links.append(f"link add n{number} type veth peer name lan netns {node_ns.init.pid}")
        links.append(f"link set n{number} master lan up")
    _ip(first, links)
    for number, node_ns in enumerate(node_namespaces, 1):
        # The default route leads nowhere; without it the addresses of Services would be unreachable.
        gateway = "10.89.0.254" if number == 1 else first.address
        routes = [
            f"route add {pod_range(other)} via {node_address(other)}"
            for other in range(1, len(node_namespaces) + 1)
        ]
        del routes[number - 1]
        setup = ["link set lo up", f"addr add {node_ns.address}/24 dev lan", "link set lan up"]
        _ip(node_ns, [*setup, f"route add default via {gateway}", *routes])


def link_ends(
    node_namespaces: Sequence[NodeNamespaces], number: int
) -> tuple[tuple[NodeNamespaces, str], tuple[NodeNamespaces, str]]:
    """Return the ends of a node's link, each with its device: all that the node sends goes there."""
    if not 2 <= number <= len(node_namespaces):
        raise LabError(f"node {number} has no link of its own", hint="the others are connected to the first")
    return (node_namespaces[0], f"n{number}"), (node_namespaces[number - 1], "lan")


def _ip(node_ns: NodeNamespaces, lines: Sequence[str]) -> None:
    done = subprocess.run(  # noqa: S603  # no shell; every argument is ours
        enter_network(node_ns, ["ip", "-batch", "-"]),
        input="\n".join(lines),
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode:
        raise LabError(f"the network of {node_ns.node} could not be set up: {done.stderr.strip()}")
