"""The operator as it is started outside a cluster: a process, its log and its metrics."""

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairlead.cluster.kinds import Kind
from tests.e2e.api import wait_for

PIPELINES = Kind.of("fairlead.dev", "v1alpha1", "pipelines", namespaced=True, name="Pipeline")
_ADDRESS = re.compile(r"listening on (\S+)")
_PASSES = re.compile(r'^fairlead_operator_reconciles_total\{.*result="done"\} (\S+)$', re.MULTILINE)
_REQUESTS = re.compile(
    r'^fairlead_operator_requests_total\{resource="(?!leases)[^"]*",.*\} (\S+)$', re.MULTILINE
)
_RENEWALS = re.compile(r'^fairlead_operator_requests_total\{resource="leases",.*\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OperatorProcess:
    """A replica that runs."""

    log: Path

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
        with urllib.request.urlopen(address[1]) as answer:
            return str(answer.read().decode())


@contextmanager
def operator(kubeconfig: Path, namespace: str, log: Path) -> Iterator[OperatorProcess]:
    """Run the operator with a kubeconfig, and its Lease in a namespace; at the end SIGTERM must end it."""
    words = ("serve", "operator", "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0")
    times = ("--leader-elect-retry-period", "300ms")
    command = [sys.executable, "-m", "fairlead", *words, "--lease-namespace", namespace, *times]
    with log.open("w") as out, subprocess.Popen(command, stderr=out) as process:
        try:
            yield OperatorProcess(log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert process.returncode == 0, log.read_text()
    assert "Traceback" not in log.read_text()
    assert log.read_text().rstrip().endswith("stopped; released the Lease")


def _total(series: re.Pattern[str], page: str) -> float:
    return sum(map(float, series.findall(page)))
