"""The operator with many resources on a real API server: `make bench-operator`.

200 resources with ten ConfigMaps each are created at once. It prints the seconds until every object and every
status exists, the memory of the operator, and the CPU that it takes while nothing changes. The controller is
that of the tests: what is measured is the framework.
"""

import asyncio
import os
import platform
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.labs import run_lab
from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import CONFIG_MAPS, CRDS, NAMESPACES, Kind
from fairlead.cluster.meta import Raw
from fairlead.errors import ClusterError
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.up import LabSpec
from fairlead.serve.operator.kinds import client_kind
from tests.serve.operator.widgets import WIDGETS, definition, widget

RESOURCES, OBJECTS = 200, 10
IDLE = 20.0
"""Seconds for which the idle operator is measured."""
NAMESPACE = "bench"
_KIND = client_kind(WIDGETS)


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """What an operator has taken for many resources, and takes while nothing changes."""

    seconds: float
    """Until everything was made, since before the first resource was created."""
    cpu: float
    """CPU seconds of the operator within them."""
    memory: float
    """MiB, resident."""
    idle: float
    """Percent of a core."""
    idle_writes: int

    def describe(self) -> str:
        """Return the figures in lines."""
        return (
            f"reconciled after {self.seconds:.1f} s, {self.cpu:.1f} s of the operator's CPU\n"
            f"resident memory {self.memory:.0f} MiB\n"
            f"idle: {self.idle:.2f} % of a core, {self.idle_writes} writes"
        )


@dataclass(frozen=True, slots=True)
class OperatorLoad:
    """The resources that an operator gets at once."""

    create: Callable[[], Awaitable[object]]
    until_made: Callable[[], Awaitable[None]]
    versions: Callable[[], Awaitable[int]]
    """A sum that grows with every write."""


async def measure_operator(pid: int, load: OperatorLoad) -> OperatorFigures:
    """Give an operator that leads its load, and return what it takes."""
    began, before = time.monotonic(), cpu_seconds(pid)
    await load.create()
    await load.until_made()
    seconds, cpu = time.monotonic() - began, cpu_seconds(pid) - before
    await asyncio.sleep(2.0)  # the passes over the last writes
    versions, idle = await load.versions(), cpu_seconds(pid)
    await asyncio.sleep(IDLE)
    used = 100 * (cpu_seconds(pid) - idle) / IDLE
    return OperatorFigures(seconds, cpu, resident_mib(pid), used, await load.versions() - versions)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


async def until_served(client: Client, kind: Kind[Raw]) -> None:
    """Wait until a kind that was just defined can be listed."""
    while True:
        try:
            await client.list(kind)
        except ClusterError:
            await asyncio.sleep(0.1)
        else:
            return


async def sum_of_versions(client: Client, kinds: Sequence[Kind[Raw]]) -> int:
    """Return the sum of the versions of all objects of kinds: it grows with every write."""
    listed = [await client.list(kind, NAMESPACE) for kind in kinds]
    return sum(int(one.metadata.resource_version) for each in listed for one in each.items)


def machine() -> str:
    """Return what the figures depend on."""
    model = next(
        line.partition(":")[2].strip()
        for line in [*Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines(), "model name:unknown"]
        if line.startswith("model name")
    )
    return f"{model}, {os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}"


async def measure(path: str) -> None:
    """Create the resources, and print what the operator takes."""
    async with Client.connect(kubeconfig.load(path)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await client.create(CRDS.raw(), definition())
        await until_served(client, _KIND)
        argv = ["-m", "tests.serve.operator.replica", path, "bench", NAMESPACE, ""]
        process = await asyncio.create_subprocess_exec(sys.executable, *argv, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        while not (await process.stdout.readline()).startswith(b"leading"):
            pass
        bodies = [widget(f"w{number:03}", configs=OBJECTS, text="x") for number in range(RESOURCES)]
        load = OperatorLoad(
            lambda: asyncio.gather(*(client.create(_KIND, body, NAMESPACE) for body in bodies)),
            lambda: _until_made(client),
            lambda: sum_of_versions(client, (_KIND, CONFIG_MAPS.raw())),
        )
        figures = await measure_operator(process.pid, load)
        print(f"{RESOURCES} resources with {OBJECTS} objects each\n{figures.describe()}")
        process.terminate()
        await process.wait()
    print(f"{machine()}\nrepeat: make bench-operator")


async def _until_made(client: Client) -> None:
    wanted = {"made": OBJECTS, "text": "x"}
    while True:
        items = (await client.list(_KIND, NAMESPACE)).items
        if sum(one.document().get("status") == wanted for one in items) == RESOURCES:
            return
        await asyncio.sleep(0.2)


def main() -> None:
    """Run on a lab of its own."""
    with run_lab(LabSpec(LabProfile.API, "bench-operator", owner=os.getpid())) as lab:
        asyncio.run(measure(str(lab.kubeconfig)))


if __name__ == "__main__":
    main()
