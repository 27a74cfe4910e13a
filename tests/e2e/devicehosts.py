"""A small device as a network namespace of its own, joined by a cable to a node's network.

    device [10.91.0.2] --veth-- [10.91.0.1] node [10.89.0.1] --NodePort--> the store's pod

It reaches what the node forwards and nothing else, and it has a home of its own.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.lab.node import inside
from fairlead.lab.run.state import NodeNamespaces
from fairlead.reproduce.emulation.namespaces import EmulatedHost, rate_words

ADDRESS, GATEWAY = "10.91.0.2", "10.91.0.1"
CABLE = "device0"
_DEVICE = "camera-7"


@dataclass(frozen=True, slots=True)
class DeviceHost:
    """A device: its network, and its home."""

    host: EmulatedHost
    home: Path

    def try_run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run `fairlead device` there; it may fail."""
        argv = self.host.command([sys.executable, "-m", "fairlead", "device", *words])
        return subprocess.run(
            argv, env=self._environ(), capture_output=True, text=True, timeout=300, check=False
        )

    def run(self, *words: str) -> str:
        """Run `fairlead device` there, which must succeed; return its output."""
        done = self.try_run(*words)
        assert done.returncode == 0, (words[0], done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def submitted(self, *words: str) -> "Iterator[subprocess.Popen[str]]":
        """Run `fairlead augment submit` there during the block; it is killed if it has not ended by then."""
        argv = self.host.command([sys.executable, "-m", "fairlead", "augment", "submit", *words])
        with subprocess.Popen(
            argv, env=self._environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def limit(self, bits_per_s: float) -> None:
        """Limit what the device sends."""
        subprocess.run(self.host.command(["tc", *rate_words(CABLE, bits_per_s)]), check=True)

    def status(self) -> dict[str, Any]:
        """Return what the device knows of its session."""
        (found,) = json.loads(self.run("status", "-o", "json"))["devices"]
        return dict(found)

    def credential(self) -> str:
        """Return the device's credential."""
        path = self.home / "fairlead" / "devices" / _DEVICE / "membership.json"
        return str(json.loads(path.read_text())["token"])

    @contextmanager
    def agent(self, log: Path) -> Iterator[None]:
        """Run the device's agent during the block; it must end on SIGTERM."""
        argv = self.host.command([sys.executable, "-m", "fairlead", "device", "sync", "--follow"])
        with (
            log.open("w") as out,
            subprocess.Popen(argv, env=self._environ(), stdout=out, stderr=subprocess.STDOUT) as process,
        ):
            try:
                yield
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
        assert process.returncode == 0, log.read_text()
        assert "Traceback" not in log.read_text()

    def _environ(self) -> dict[str, str]:
        home = str(self.home)
        return {**os.environ, "HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}


@contextmanager
def device_host(node: NodeNamespaces, home: Path) -> Iterator[DeviceHost]:
    """Yield a device that is joined to a node; the cable and the namespace go with the block."""
    home.mkdir()
    # It reads a pipe whose other end is ours alone: it ends when this process does.
    argv = ["unshare", "--net", "sh", "-c", "echo ready && exec cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline(), "no network namespace"
            host = EmulatedHost("device", ADDRESS, holder.pid)
            _plug(node, host)
            try:
                yield DeviceHost(host, home)
            finally:
                _in_node(node, f"link del {CABLE}")
        finally:
            holder.kill()


def _plug(node: NodeNamespaces, host: EmulatedHost) -> None:
    _in_node(node, f"link add {CABLE} type veth peer name {CABLE} netns {host.holder}")
    _in_node(node, f"addr add {GATEWAY}/24 dev {CABLE}")
    _in_node(node, f"link set {CABLE} up")
    for words in (
        "link set lo up",
        f"addr add {ADDRESS}/24 dev {CABLE}",
        f"link set {CABLE} up",
        f"route add default via {GATEWAY}",
    ):
        subprocess.run(host.command(["ip", *words.split()]), check=True)


def _in_node(node: NodeNamespaces, words: str) -> None:
    done = inside.run_in_network(node, ["ip", *words.split()])
    assert done.returncode == 0, (words, done.stderr)
