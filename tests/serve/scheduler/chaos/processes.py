"""Replicas: each a process, with its own clocks and its own connection to the API server."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random

from fairlead.cluster.client import Client
from fairlead.cluster.kinds import LEASES
from fairlead.errors import ClusterError
from tests.cluster.chaos.api import ChaosApi
from tests.cluster.chaos.wire import Wire
from tests.serve.scheduler.replica import LEASE

REPLICAS = 3


@dataclass
class ReplicaProcess:
    """A replica."""

    name: str
    process: asyncio.subprocess.Process
    wire: Wire
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process handles signals."""
    formats: str = "current"
    """`next`: it writes the next version of each format."""
    marks: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue)
    logs: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue)
    reader: "asyncio.Task[None] | None" = None

    def send(self, number: int) -> None:
        """Send the process a signal, if it still runs."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def digest(self) -> str:
        """Ask the process for the digest of its cache, and return it."""
        async with asyncio.timeout(300):
            await self.ready.wait()
            self.send(signal.SIGUSR2)
            return await self.marks.get()

    async def read(self) -> None:
        """Read the digests that the process prints; before the first, it prints that it handles signals."""
        assert self.process.stdout is not None
        if await self.process.stdout.readline():
            self.ready.set()
        while line := await self.process.stdout.readline():
            text = line.decode().strip()
            if text.startswith("log "):
                self.logs.put_nowait(text.removeprefix("log "))
            else:
                self.marks.put_nowait(text)

    async def logged(self, words: str, seconds: float) -> str:
        """Wait until it has logged a line with these words, and return the line."""
        async with asyncio.timeout(seconds):
            while words not in (line := await self.logs.get()):
                pass
            return line


@dataclass
class ReplicaProcesses:
    """All replicas."""

    api: ChaosApi
    kubeconfig: str
    namespace: str
    dice: Random
    lease: float = LEASE
    unfenced: bool = False
    processes: list[ReplicaProcess] = field(default_factory=list)
    numbers: "count[int]" = field(default_factory=count)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def add(self, formats: str = "current") -> ReplicaProcess:
        """Start another replica; with another boot-time clock, where the kernel allows it."""
        wire = await self.stack.enter_async_context(Wire(self.api.port).open())
        me = f"replica-{next(self.numbers)}"
        argv = [sys.executable, "-m", "tests.serve.scheduler.replica", self.kubeconfig, me, self.namespace]
        argv += [str(wire.port), str(self.lease), "unfenced" if self.unfenced else "fenced", formats]
        if os.geteuid() == 0 and (unshare := shutil.which("unshare")):
            argv = [unshare, "-T", "--boottime", str(self.dice.randrange(1_000_000)), *argv]
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        replica = ReplicaProcess(me, process, wire, formats=formats)
        replica.reader = asyncio.create_task(replica.read())
        self.processes.append(replica)
        return replica

    async def leader(self, client: Client) -> ReplicaProcess:
        """Return the replica that holds the Lease; a random one where none does."""
        with suppress(ClusterError):
            lease = await client.get(LEASES, "fairlead-scheduler", self.namespace)
            for replica in self.processes:
                if replica.name == lease.spec.holder_identity:
                    return replica
        return self.dice.choice(self.processes)

    async def replace(self, replica: ReplicaProcess, number: int) -> None:
        """End a replica by a signal, and start another."""
        replica.send(number)
        await replica.process.wait()
        await self.restart_ended()

    async def restart_ended(self) -> None:
        """Replace each replica that has ended: one that cannot reach the cluster at its start does."""
        for replica in [each for each in self.processes if each.process.returncode is not None]:
            self.processes.remove(replica)
            await self.add(replica.formats)

    async def end(self) -> None:
        """Kill all replicas."""
        for replica in self.processes:
            with suppress(ProcessLookupError):
                replica.process.kill()
            await replica.process.wait()
            if replica.reader is not None:
                await replica.reader
        await self.stack.aclose()


@asynccontextmanager
async def run_replicas(
    api: ChaosApi, namespace: str, dice: Random, *, lease: float = LEASE, unfenced: bool = False
) -> AsyncIterator[ReplicaProcesses]:
    """Run replicas while the block runs."""
    replicas = ReplicaProcesses(api, api.config.source, namespace, dice, lease, unfenced)
    try:
        for _ in range(REPLICAS):
            await replicas.add()
        yield replicas
    finally:
        await replicas.end()
