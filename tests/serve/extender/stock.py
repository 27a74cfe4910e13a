"""A cluster with a stock kube-scheduler that calls our extender, which can be killed and stopped."""

import asyncio
import io
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fairlead.cache import types as seen
from fairlead.cache.types import LivePod
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import EVENTS, PODS
from fairlead.errors import ClusterError, LabError
from fairlead.lab.build.prerequisites import gather
from fairlead.lab.control import tuning
from fairlead.lab.control.fleet import Fleet, FleetDevice, NodeGroup
from fairlead.lab.control.kwok_nodes import manifests
from fairlead.lab.run import home
from fairlead.lab.run.down import down
from fairlead.lab.run.restart import restart
from fairlead.lab.run.state import Lab, LabProfile
from fairlead.lab.run.steps import StepPrinter
from fairlead.lab.run.up import LabSpec, up
from fairlead.serve.extender.config import configuration
from tests import catalogs
from tests.labs import skip_without_lab

NAMESPACE = "default"


@dataclass(slots=True)
class Stock:
    """The lab, and the running extender."""

    lab: Lab
    port: int
    log: Path
    extender: "subprocess.Popen[bytes] | None" = None

    def start_extender(self) -> None:
        """Start the extender and wait until it has listed the cluster."""
        where = f"127.0.0.1:{self.port}"
        words = ["serve", "extender", "--kubeconfig", str(self.lab.kubeconfig), "--listen", where]
        program = [sys.executable, "-c", "from fairlead.cli.main import run; run()", *words]
        with self.log.open("ab") as log:
            self.extender = subprocess.Popen(program, stdout=log, stderr=log)
        asyncio.run(_until(lambda: self.page("/readyz") == "ready\n"))

    def end_extender(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End the extender, and return its exit code."""
        assert self.extender is not None
        self.extender.send_signal(number)
        code = self.extender.wait(20)
        self.extender = None
        return code

    def page(self, path: str) -> str:
        """Return a page of the extender; empty while it has none."""
        with (
            suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer,
        ):
            return str(answer.read().decode())
        return ""

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Suspend the extender as long as the context lasts."""
        assert self.extender is not None
        self.extender.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.extender.send_signal(signal.SIGCONT)

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        """Make the extender ignorable for kube-scheduler as long as the context lasts."""
        path = self.lab.folder / "scheduler.yaml"
        before = path.read_text()
        document = yaml.safe_load(before)
        document["extenders"][0]["ignorable"] = True
        try:
            self._reconfigure(path, yaml.safe_dump(document))
            yield
        finally:
            self._reconfigure(path, before)

    def _reconfigure(self, path: Path, text: str) -> None:
        path.write_text(text)
        restart(home.default(os.environ), self.lab.name, "kube-scheduler", StepPrinter(io.StringIO()))

    @contextmanager
    def pods(self) -> Iterator["Pods"]:
        """Yield a helper for pods; they are deleted afterwards."""
        pods = Pods(self.lab)
        try:
            yield pods
        finally:
            asyncio.run(pods.clear())


class Pods:
    """Creates and watches pods, each step with a connection of its own."""

    def __init__(self, lab: Lab) -> None:
        self._config = kubeconfig.load(str(lab.kubeconfig))

    def make(self, **sizes: int) -> None:
        """Create pods by name, each with these MiB of an accelerator."""

        async def made() -> None:
            async with Client.connect(self._config) as client:
                bodies = [body(name, mib) for name, mib in sizes.items()]
                await asyncio.gather(*(client.create(PODS.raw(), each, NAMESPACE) for each in bodies))

        asyncio.run(made())

    def delete(self, name: str) -> None:
        """Delete a pod at once."""

        async def deleted() -> None:
            async with Client.connect(self._config) as client:
                await client.delete(PODS, name, NAMESPACE, grace=0)

        asyncio.run(deleted())

    def until(self, right: Callable[[dict[str, LivePod]], bool]) -> dict[str, LivePod]:
        """Wait until a condition holds for the pods, and return them by name."""
        return asyncio.run(self._until(right))

    async def _until(self, right: Callable[[dict[str, LivePod]], bool]) -> dict[str, LivePod]:
        async with Client.connect(self._config) as client, asyncio.timeout(90):
            while True:
                items = (await client.list(seen.PODS, NAMESPACE)).items
                pods = {pod.metadata.name: pod for pod in items}
                if right(pods):
                    return pods
                await asyncio.sleep(0.1)

    def events(self, name: str) -> list[str]:
        """Return the events of a pod."""

        async def listed() -> list[str]:
            async with Client.connect(self._config) as client:
                items = (await client.list(EVENTS, NAMESPACE)).items
                return [item.message for item in items if item.involved_object.name == name]

        return asyncio.run(listed())

    async def clear(self) -> None:
        """Delete every pod."""
        async with Client.connect(self._config) as client, asyncio.timeout(300):
            while items := (await client.list(PODS, NAMESPACE)).items:
                for item in items:
                    with suppress(ClusterError):
                        await client.delete(PODS, item.metadata.name, NAMESPACE, grace=0)
                await asyncio.sleep(0.1)


def body(name: str, mib: int) -> dict[str, Any]:
    """Return a pod with these MiB of an accelerator."""
    limits = {"fairlead.dev/gpu-mem": str(mib)} if mib else {}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def placed(*names: str) -> Callable[[dict[str, LivePod]], bool]:
    """Return a condition: these pods have a node; without names, all."""
    return lambda pods: all(pods[name].spec.node_name for name in names or pods)


@contextmanager
def started(folder: Path) -> Iterator[Stock]:
    """Start a lab whose kube-scheduler calls an extender, and the extender; stop both afterwards."""
    quiet, where, name = StepPrinter(io.StringIO()), home.default(os.environ), f"stock-{os.getpid()}"
    try:
        gather(LabProfile.CONTROL, quiet, kwok=True)
    except LabError as error:
        skip_without_lab(str(error).splitlines()[0])
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = yaml.safe_load(configuration(f"http://127.0.0.1:{port}"))
    del config["clientConnection"]  # the lab has its own
    tuned = tuning.LabTuning(scheduler=config)
    wish = LabSpec(LabProfile.CONTROL, name, fleet=_nodes(), owner=os.getpid(), tuning=tuned)
    stock = Stock(up(where, wish, quiet), port, folder / "extender.log")
    try:
        stock.start_extender()
        yield stock
    finally:
        if stock.extender is not None:
            stock.end_extender()
        down(where, name)


def _nodes() -> tuple[dict[str, Any], ...]:
    """Return three nodes with two accelerators of 16 GiB each."""
    catalog = catalogs.shipped()
    group = NodeGroup("gpu", 3, (FleetDevice(catalog.get("t4"), 2),), cpu=32)
    return tuple(manifests(Fleet((group,)), catalog))


async def _until(right: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not right():
            await asyncio.sleep(0.1)
