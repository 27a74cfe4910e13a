"""The measured schedulers: start one, wait until it is ready, read its metrics, and stop it."""

import os
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.labs import HOUSE
from bench.pairs import Checkout
from bench.scheduler_lab import stop
from fairlead.lab.run import process
from fairlead.lab.run.process import Process
from fairlead.lab.run.state import Lab

PATIENCE = 120.0
_FAIRLEAD = ("-c", "from fairlead.cli.main import run; run()")
_LINE = re.compile(r"^(\w+)_bucket\{(.*)\} (\S+)$", re.MULTILINE)
_BOUND = re.compile(r'le="([^"]+)"')
_DECIDING = ("scheduler_scheduling_algorithm_duration_seconds", "fairlead_scheduler_decision_seconds")
Histogram = Mapping[float, float]
"""Cumulative counts by upper bound in seconds."""


class PeerError(Exception):
    """A scheduler that cannot be measured here."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A running scheduler."""

    processes: tuple[Process, ...]
    """The deciding processes: a scheduler, and its extender."""
    page: str = ""
    """The address of its metrics; empty: it has none."""


class PeerRunner:
    """Starts schedulers, one at a time."""

    def __init__(self, lab: Lab, stock: Sequence[str], before: Checkout | None = None) -> None:
        self._lab = lab
        self._before = before
        """Another version of fairlead."""
        self._stock = tuple(stock)
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        keys = lab.folder / "keys"
        self._tls.load_cert_chain(keys / "admin.crt", keys / "admin.key")

    @contextmanager
    def running(self, name: str) -> Iterator[Peer]:
        """Run a scheduler while the block runs."""
        starters = {
            "kube-scheduler": self._kube,
            "kube-scheduler + extender": self._extended,
            "fairlead": self._fairlead,
            "fairlead before": self._fairlead_before,
            "nothing": self._nothing,
        }
        with ExitStack() as stack:
            yield starters[name](stack)

    def decision_histogram(self, peer: Peer) -> Histogram:
        """Return the histogram of its decisions since its start."""
        counts: dict[float, float] = {}
        text = (self._fetch(f"{peer.page}/metrics") or b"").decode() if peer.page else ""
        for name, labels, count in _LINE.findall(text):
            bound = _BOUND.search(labels)
            if name in _DECIDING and bound:
                at = float(bound[1])
                counts[at] = counts.get(at, 0.0) + float(count)
        return counts

    def _kube(self, stack: ExitStack, argv: Sequence[str] = ()) -> Peer:
        running = self._start(stack, "kube-scheduler", argv or self._stock)
        page = f"https://127.0.0.1:{self._lab.ports['kube-scheduler']}"
        self._wait_until_ready(running, page)
        return Peer((running,), page)

    def _extended(self, stack: ExitStack) -> Peer:
        port = _free_port()
        where = f"http://127.0.0.1:{port}"
        printed = _run_fairlead("serve", "extender", "--print-config", where)
        command = [
            *_fairlead_argv("serve", "extender", "--listen", f"127.0.0.1:{port}"),
            *self._kubeconfig_options(),
        ]
        extender = self._start(stack, "extender", command)
        self._wait_until_ready(extender, where)
        stock = next(word for word in self._stock if word.startswith("--config="))
        config = yaml.safe_load(Path(stock.removeprefix("--config=")).read_text(encoding="utf-8"))
        config["extenders"] = yaml.safe_load(printed)["extenders"]
        file = self._lab.folder / "scheduler-extended.yaml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        kube = self._kube(stack, [f"--config={file}" if word == stock else word for word in self._stock])
        return Peer((*kube.processes, extender), kube.page)

    def _fairlead_before(self, stack: ExitStack) -> Peer:
        if self._before is None:
            raise PeerError("there is no earlier version")
        return self._fairlead(stack, str(self._before.source))

    def _fairlead(self, stack: ExitStack, source: str = "") -> Peer:
        page = f"http://127.0.0.1:{_free_port()}"
        command = _fairlead_argv("serve", "scheduler", "--listen", page.removeprefix("http://"))
        running = self._start(stack, "fairlead", [*command, *self._kubeconfig_options()], source)
        self._wait_until_ready(running, page)
        self._wait_for_log(running, "fairlead", "deciding")
        return Peer((running,), page)

    def _nothing(self, stack: ExitStack) -> Peer:
        command = [sys.executable, "-m", "bench.scheduler_noop", str(self._lab.kubeconfig)]
        running = self._start(stack, "nothing", command)
        self._wait_for_log(running, "nothing", "ready")
        return Peer((running,))

    def _kubeconfig_options(self) -> list[str]:
        return ["--kubeconfig", str(self._lab.kubeconfig)]

    def _start(self, stack: ExitStack, name: str, argv: Sequence[str], source: str = "") -> Process:
        """Start a program; the lab stops it if this process does not."""
        log = self._log(name)
        log.unlink(missing_ok=True)
        own = source or str(HOUSE / "src")
        paths = os.pathsep.join((own, str(HOUSE), *filter(None, [os.environ.get("PYTHONPATH")])))
        env = {**self._lab.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        running = process.start(argv, log, self._lab.folder, env)
        stack.callback(stop, running)
        return running

    def _log(self, name: str) -> Path:
        return self._lab.log(f"bench-{name}")

    def _wait_until_ready(self, running: Process, page: str) -> None:
        self._wait(running, page, lambda: self._fetch(f"{page}/readyz") is not None)

    def _fetch(self, url: str) -> bytes | None:
        """Return a page, as an administrator that trusts any certificate; None if the request fails."""
        try:
            with urllib.request.urlopen(url, timeout=5, context=self._tls) as answer:
                body: bytes = answer.read()
                return body
        except OSError:
            return None

    def _wait_for_log(self, running: Process, name: str, word: str) -> None:
        log = self._log(name)
        self._wait(running, name, lambda: word in log.read_text(encoding="utf-8", errors="replace"))

    def _wait(self, running: Process, name: str, well: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not well():
            if not process.alive(running) or time.monotonic() > until:
                raise PeerError(f"{name} is not ready; its log is in {self._lab.folder / 'logs'}")
            time.sleep(0.2)


def _fairlead_argv(*words: str) -> list[str]:
    return [sys.executable, *_FAIRLEAD, *words]


def _run_fairlead(*words: str) -> str:
    """Return the output of a fairlead command."""
    done = subprocess.run(_fairlead_argv(*words), capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerError(f"fairlead {' '.join(words)}: {done.stderr.strip()[-300:]}")
    return done.stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
