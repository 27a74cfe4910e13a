"""Hosts for tests: servers of this process on the loopback, and runs over them."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairlead.pipeline.check import require_sound
from fairlead.pipeline.driver import PipelineDriver
from fairlead.pipeline.fuse import plan_workers
from fairlead.pipeline.hosts.ask import HostAnswers, ask_hosts
from fairlead.pipeline.hosts.certificates import write_certificates
from fairlead.pipeline.hosts.remote import RemoteHosts
from fairlead.pipeline.hosts.server import HostServer
from fairlead.pipeline.hosts.settings import HostSettings
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.yaml_file import parse_pipeline
from tests.pipeline.pipelines import STAGES

LIMIT = 120.0


@contextmanager
def host(
    folder: Path, tls: HostTlsFiles | None = None, grace: float = 120.0, patience: float = 120.0
) -> Iterator[HostServer]:
    """Yield a host that serves on a free port of the loopback."""
    server = HostServer(HostSettings("127.0.0.1:0", tls, str(folder), grace, patience), lambda line: None)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ask(text: str, folder: Path, tls: HostTlsFiles | None = None) -> HostAnswers:
    """Return what the hosts of a pipeline say; `$S` is the module of stages."""
    data = text.replace("$S", STAGES).encode()
    return ask_hosts(require_sound(parse_pipeline(data, f"{folder}/p.yaml")), tls)


def run_on_hosts(
    text: str,
    folder: Path,
    on_status: Callable[[dict[str, Any]], None] = lambda status: None,
    tls: HostTlsFiles | None = None,
) -> dict[str, Any]:
    """Run a pipeline whose file names hosts, and return its counters."""
    answers = ask(text, folder, tls)
    assert answers.problems == ()
    plan = plan_workers(answers.spec)
    hosts = RemoteHosts(plan, tls, answers.replayable)
    return PipelineDriver(plan, lambda line: None, on_status, None, hosts).run()


def certificates(folder: Path, name: str) -> HostTlsFiles:
    """Return the files of one host, made now; `coordinator` has a name of its own."""
    write_certificates(str(folder), [] if name == "coordinator" else [f"{name},127.0.0.1"], 1)
    return HostTlsFiles(str(folder / "ca.crt"), str(folder / f"{name}.crt"), str(folder / f"{name}.key"))


def start_host(folder: Path, port: int = 0) -> "tuple[subprocess.Popen[str], int]":
    """Start `fairlead pipeline worker` in a process of its own; return it and its port."""
    words = ["pipeline", "worker", "--listen", f"127.0.0.1:{port}", "--insecure", "--folder", str(folder)]
    child = subprocess.Popen([sys.executable, "-m", "fairlead", *words], stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    for line in child.stderr:
        if "listens on" in line:
            return child, int(line.rpartition(":")[2])
    raise AssertionError("the host did not start")
