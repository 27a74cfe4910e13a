"""Two hosts as network namespaces that are joined by a veth pair; `tbf` limits the rate of the link.

Each namespace is held by a process that ends with this one, whatever ends it: nothing is left behind.

    edge [10.90.0.1] --veth, tbf both ways-- [10.90.0.2] server
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from fairlead.errors import EmulationError

EDGE, SERVER = "edge", "server"
_ADDRESSES: Final = {EDGE: "10.90.0.1", SERVER: "10.90.0.2"}
_DEVICE: Final = "link0"
_TOOLS: Final = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ip": "iproute2",
    "tc": "iproute2",
}
_LEAST_BURST: Final = 1 << 16
_BURST_S: Final = 0.002
"""Seconds at full rate that a burst may have: a timer of the kernel is never later than that."""
_QUEUE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class EmulatedHost:
    """A network namespace, by the process that holds it."""

    name: str
    address: str
    holder: int

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program there; it ends with the thread that starts it."""
        enter = ["nsenter", f"--net=/proc/{self.holder}/ns/net", "--"]
        return [*enter, "setpriv", "--pdeathsig", "KILL", *argv]


@dataclass(frozen=True, slots=True)
class HostPair:
    """An edge and a server."""

    edge: EmulatedHost
    server: EmulatedHost

    @property
    def hosts(self) -> tuple[EmulatedHost, EmulatedHost]:
        """Both hosts."""
        return self.edge, self.server

    def set_rate(self, bits_per_s: float | None) -> None:
        """Limit the link to a rate in each direction, also while it is used; None: no limit."""
        for host in self.hosts:
            _run(host.command(["tc", *rate_words(_DEVICE, bits_per_s)]))


def obstacle() -> str:
    """Return why hosts cannot be emulated here, and what to do; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root: run as root, or in a container with CAP_SYS_ADMIN"
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            return f"{tool} is missing: install the package {package}"
    try:
        with host_pair() as pair:
            pair.set_rate(1e8)
    except EmulationError as error:
        return f"{error}: run as root outside a container, or in a privileged one"
    return ""


@contextmanager
def host_pair() -> Iterator[HostPair]:
    """Yield two hosts with a link between them; they end with the block, or with this process."""
    with ExitStack() as stack:
        hosts = [stack.enter_context(_namespace(name)) for name in (EDGE, SERVER)]
        edge, server = hosts
        _ip(edge, f"link add {_DEVICE} type veth peer name {_DEVICE} netns {server.holder}")
        for host in hosts:
            _ip(host, "link set lo up")
            _ip(host, f"addr add {host.address}/24 dev {_DEVICE}")
            _ip(host, f"link set {_DEVICE} up")
        yield HostPair(edge, server)


@contextmanager
def _namespace(name: str) -> Iterator[EmulatedHost]:
    # It reads a pipe whose other end is ours alone: it ends when this process does.
    argv = ["unshare", "--net", "sh", "-c", "echo ready && exec cat"]
    with subprocess.Popen(  # noqa: S603 - no shell; every argument is ours
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        try:
            if not holder.stdout.readline():
                raise EmulationError(f"no network namespace: {holder.stderr.read().decode().strip()}")
            yield EmulatedHost(name, _ADDRESSES[name], holder.pid)
        finally:
            holder.kill()


def rate_words(device: str, bits_per_s: float | None) -> list[str]:
    """Return the words for `tc` that limit what a device sends; None: no limit."""
    if bits_per_s is None:
        return ["qdisc", "replace", "dev", device, "root", "pfifo"]
    rate = bits_per_s / 8
    burst, limit = (
        max(_LEAST_BURST, round(rate * _BURST_S)),
        max(4 * _LEAST_BURST, round(rate * _QUEUE_S)),
    )
    shape = ["rate", f"{round(bits_per_s)}bit", "burst", f"{burst}b", "limit", f"{limit}b"]
    return ["qdisc", "replace", "dev", device, "root", "tbf", *shape]


def _ip(host: EmulatedHost, words: str) -> None:
    _run(host.command(["ip", *words.split()]))


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(  # noqa: S603 - no shell; every argument is ours
        argv, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise EmulationError(f"{' '.join(argv[argv.index('KILL') + 1 :][:3])}: {lines[-1]}")
