"""Call `fairlead lab` as a user would, with a state folder of its own, and list what it leaves behind."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.lab.node import cgroups
from fairlead.lab.run import process
from fairlead.lab.run.home import LabHome

FAIRLEAD = [sys.executable, "-m", "fairlead"]
_STAND_IN = """\
#!{python} -IS
import http.server, ssl, sys
options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers()
        self.wfile.write(b"ok")
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(options["--tls-cert-file"], options["--tls-private-key-file"])
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(options["--secure-port"])), Answer)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("serving", flush=True)
server.serve_forever()
"""


def network_namespaces() -> frozenset[str]:
    """Return the named network namespaces of this machine."""
    return frozenset(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else frozenset()


@dataclass(frozen=True, slots=True)
class LabCommandLine:
    """The `fairlead lab` command line, with a state folder of its own."""

    root: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    networks: frozenset[str] = field(default_factory=network_namespaces)
    """The named network namespaces from before the test."""

    @property
    def home(self) -> LabHome:
        """The folder of its labs."""
        return LabHome(self.root / "fairlead" / "lab")

    @property
    def env(self) -> dict[str, str]:
        """The environment of every call."""
        return {**os.environ, "XDG_STATE_HOME": str(self.root), "FAIRLEAD_LAB": "", **self.environ}

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `fairlead lab ARGUMENTS` to its end."""
        return subprocess.run(
            [*FAIRLEAD, "lab", *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start `fairlead lab ARGUMENTS` without waiting for it."""
        return subprocess.Popen(
            [*FAIRLEAD, "lab", *arguments],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def json_of(self, *arguments: str) -> Any:
        """Run a command that may fail and return its document."""
        return json.loads(self(*arguments, "-o", "json").stdout)

    def json(self, *arguments: str) -> Any:
        """Run a command that must succeed and return its document."""
        done = self(*arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def processes(self) -> list[process.Process]:
        """Return every process that was started for a lab in this folder."""
        prefix = f"{process.FOLDER_VARIABLE}={self.root}/".encode()
        started = []
        for pid in process.pids():
            try:
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            candidate = process.find(pid)
            if candidate and any(variable.startswith(prefix) for variable in variables):
                started.append(candidate)
        return started

    def leftovers(self) -> list[str]:
        """Return everything that the labs of this folder have left on the machine."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        groups = [str(group) for tree in cgroups.hierarchies() for group in tree.glob(f"{cgroups.PREFIX}*")]
        ours = [cgroups.name_prefix(self.home.folder(name)) for name in ("lab", "one", "two", "real")]
        return [
            *(f"process {started.pid}" for started in self.processes()),
            *(f"mount {line}" for line in mounts if str(self.root) in line),
            *(f"group {path}" for path in groups if any(family in path for family in ours)),
            *(f"network namespace {name}" for name in network_namespaces() - self.networks),
            *(f"file {path}" for path in self.root.rglob("*")),
        ]


def write_fake_programs(folder: Path, api_server: str = "") -> dict[str, str]:
    """Write fake programs for etcd and the API server; return the environment that names them.

    Without a script of its own the API server answers every request with 200.
    """
    folder.mkdir()
    scripts = {
        "etcd": "#!/bin/sh\nexec sleep 600\n",
        "kube-apiserver": api_server or _STAND_IN.format(python=sys.executable),
        "kubectl": '#!/bin/sh\necho "$KUBECONFIG" "$@"\n',
    }
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {"KUBEBUILDER_ASSETS": str(folder)}


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"the condition did not hold within {seconds:.0f} s"
        time.sleep(0.02)
