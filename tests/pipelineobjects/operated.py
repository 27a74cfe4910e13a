"""The operator as a process in the network of a lab's node, where it reaches pods."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairlead.cluster.kinds import Kind
from fairlead.lab.control.commands import DEFAULT_PORTS
from fairlead.lab.node import inside, namespaces
from fairlead.lab.run.state import NodeNamespaces
from tests.e2e.api import wait_for
from tests.labs import RealNode

PIPELINES = Kind.of("fairlead.dev", "v1alpha1", "pipelines", namespaced=True, name="Pipeline")
_ADDRESS = re.compile(r"listening on (\S+)")
_PASSES = re.compile(r'^fairlead_operator_reconciles_total\{.*result="done"\} (\S+)$', re.MULTILINE)
_REQUESTS = re.compile(
    r'^fairlead_operator_requests_total\{resource="(?!leases)[^"]*",.*\} (\S+)$', re.MULTILINE
)
_READ = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
_SERVER = re.compile(r"https://127\.0\.0\.1:\d+")
_RENEWALS = re.compile(r'^fairlead_operator_requests_total\{resource="leases",.*\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OperatorProcess:
    """A replica that runs."""

    log: Path
    node: NodeNamespaces

    def requests(self) -> float:
        """Return how many requests it has sent, other than those for the Lease; watches do not count."""
        return _total(_REQUESTS, self.page())

    def passes(self) -> float:
        """Return how many passes over Pipelines it has finished."""
        return _total(_PASSES, self.page())

    def wait_for_renewals(self, count: int) -> None:
        """Wait until it has renewed the Lease so often: its loop goes on."""
        wanted = _total(_RENEWALS, self.page()) + count
        wait_for("renewals", lambda: _total(_RENEWALS, self.page()) >= wanted, self.log.read_text)

    def page(self) -> str:
        """Return its metrics."""
        address = wait_for("the operator", lambda: _ADDRESS.search(self.log.read_text()), self.log.read_text)
        return inside.run_in_network(self.node, [sys.executable, "-c", _READ, address[1]]).stdout


@contextmanager
def operator(node: RealNode, namespace: str, log: Path) -> Iterator[OperatorProcess]:
    """Run the operator, with its Lease in a namespace; at the end SIGTERM must end it."""
    first = node.lab.namespaces[0]
    kubeconfig = log.with_suffix(".kubeconfig")
    server = f"https://127.0.0.1:{DEFAULT_PORTS['kube-apiserver']}"  # where it listens in its own network
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(_SERVER.sub(server, node.kubeconfig.read_text()))
    words = ("serve", "operator", "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0")
    times = ("--leader-elect-retry-period", "300ms")
    command = [sys.executable, "-m", "fairlead", *words, "--lease-namespace", namespace, *times]
    entered = namespaces.enter_network(first, command)
    with log.open("w") as out, subprocess.Popen(entered, stderr=out) as process:
        try:
            yield OperatorProcess(log, first)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert process.returncode == 0, log.read_text()
    assert "Traceback" not in log.read_text()
    assert log.read_text().rstrip().endswith("stopped; released the Lease")


def _total(series: re.Pattern[str], page: str) -> float:
    return sum(map(float, series.findall(page)))
