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
from pathlib import Path

from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.kinds import CONFIG_MAPS, CRDS, NAMESPACES
from fairlead.errors import ClusterError
from fairlead.lab.run import home
from fairlead.lab.run.down import down
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.steps import StepPrinter
from fairlead.lab.run.up import LabSpec, up
from fairlead.serve.operator.kinds import client_kind
from tests.serve.operator.widgets import WIDGETS, definition, widget

RESOURCES, OBJECTS = 200, 10
IDLE = 20.0
"""Seconds for which the idle operator is measured."""
_LAB = "bench-operator"
_KIND = client_kind(WIDGETS)
_NAMESPACE = "bench"


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


async def measure(path: str) -> None:
    """Create the resources, and print what the operator takes."""
    async with Client.connect(kubeconfig.load(path)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
        await client.create(CRDS.raw(), definition())
        await _until_served(client)
        argv = ["-m", "tests.serve.operator.replica", path, "bench", _NAMESPACE, ""]
        process = await asyncio.create_subprocess_exec(sys.executable, *argv, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        while not (await process.stdout.readline()).startswith(b"leading"):
            pass
        began, before = time.monotonic(), cpu_seconds(process.pid)
        bodies = [widget(f"w{number:03}", configs=OBJECTS, text="x") for number in range(RESOURCES)]
        await asyncio.gather(*(client.create(_KIND, body, _NAMESPACE) for body in bodies))
        created = time.monotonic()
        await _until_made(client)
        ended, after = time.monotonic(), cpu_seconds(process.pid)
        await asyncio.sleep(2.0)  # the passes over the last writes
        versions, idle = await _versions(client), cpu_seconds(process.pid)
        await asyncio.sleep(IDLE)
        used = cpu_seconds(process.pid) - idle
        print(f"{RESOURCES} resources with {OBJECTS} objects each, created in {created - began:.1f} s")
        print(f"reconciled after {ended - began:.1f} s, {after - before:.1f} s of CPU")
        print(f"resident memory {resident_mib(process.pid):.0f} MiB")
        print(f"idle: {100 * used / IDLE:.2f} % of a core, {await _versions(client) - versions} writes")
        process.terminate()
        await process.wait()
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print("repeat: make bench-operator")


async def _until_served(client: Client) -> None:
    while True:
        try:
            await client.list(_KIND)
        except ClusterError:
            await asyncio.sleep(0.1)
        else:
            return


async def _until_made(client: Client) -> None:
    wanted = {"made": OBJECTS, "text": "x"}
    while True:
        items = (await client.list(_KIND, _NAMESPACE)).items
        if sum(one.document().get("status") == wanted for one in items) == RESOURCES:
            return
        await asyncio.sleep(0.2)


async def _versions(client: Client) -> int:
    """Return the sum of all versions: it grows with every write."""
    items = [*(await client.list(_KIND)).items, *(await client.list(CONFIG_MAPS, _NAMESPACE)).items]
    return sum(int(one.metadata.resource_version) for one in items)


def main() -> None:
    """Run on a lab of its own."""
    where = home.default(os.environ)
    lab = up(where, LabSpec(LabProfile.API, _LAB, owner=os.getpid()), StepPrinter(sys.stderr))
    try:
        asyncio.run(measure(str(lab.kubeconfig)))
    finally:
        down(where, _LAB)


if __name__ == "__main__":
    main()
