"""Simulate many agents in one process: their publishing parts, each with its own token.

Run by agents.py: the first line of standard input names server and agents, each further line is a command,
and each answer is a line of JSON. A kubelet is not simulated: claims count as registered from the start.
"""

import asyncio
import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.labs import detect_machine
from fairlead.catalog import load
from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ClusterConfig
from fairlead.errors import FairleadError
from fairlead.inventory import Inventory
from fairlead.serve.agent.node_reconciler import NodeReconciler, PublishedFacts
from fairlead.settings.publishing import PublishConfig

SETTLE = 0.2
BACK_OFF = 1.0, 60.0
"""As in serve/publisher.py."""
LONGEST = 200


class TimedClient(Client):
    """A client that records the duration and the result of its requests."""

    durations: ClassVar[list[float]] = []
    """Seconds of each write that succeeded."""
    last: ClassVar[float] = 0.0
    """The time of the latest one, on a clock that all processes of a machine share."""
    asked: ClassVar[Counter[str]] = Counter()
    failed: ClassVar[Counter[str]] = Counter()

    @asynccontextmanager
    async def _recorded(self, verb: str) -> AsyncIterator[None]:
        began = time.monotonic()
        self.asked[verb] += 1
        try:
            yield
        except FairleadError as error:
            self.failed[f"{verb}: {type(error).__name__}"] += 1
            raise
        if verb not in ("get", "list"):
            TimedClient.durations.append(time.monotonic() - began)
            TimedClient.last = time.monotonic()

    async def get(self, *words: Any, **named: Any) -> Any:
        """Read one object."""
        async with self._recorded("get"):
            return await super().get(*words, **named)

    async def list(self, *words: Any, **named: Any) -> Any:
        """Read all objects."""
        async with self._recorded("list"):
            return await super().list(*words, **named)

    async def create(self, *words: Any, **named: Any) -> Any:
        """Create an object."""
        async with self._recorded("create"):
            return await super().create(*words, **named)

    async def update(self, *words: Any, **named: Any) -> Any:
        """Replace an object."""
        async with self._recorded("update"):
            return await super().update(*words, **named)

    async def patch(self, *words: Any, **named: Any) -> Any:
        """Patch an object."""
        async with self._recorded("patch"):
            return await super().patch(*words, **named)

    async def delete(self, *words: Any, **named: Any) -> None:
        """Delete an object."""
        async with self._recorded("delete"):
            await super().delete(*words, **named)


@dataclass(frozen=True, slots=True)
class AgentRole:
    """One agent: its node and token, its machine, and the machine it detects later."""

    node: str
    token: str
    machine: str
    later: str
    restarts: bool
    """Whether a restart of the agent brings the change."""


class SimulatedAgent:
    """The publishing part of an agent, without a thread of its own."""

    def __init__(self, role: AgentRole, config: ClusterConfig, inventory: Inventory) -> None:
        self._config = config
        self._publish_config = PublishConfig(role.node)
        self._due = asyncio.Event()
        self._inventory = inventory
        self.written: Counter[str] = Counter()
        self._task = asyncio.create_task(self._publish())

    def offer(self, inventory: Inventory) -> None:
        """Take the inventory of a scan."""
        self._inventory = inventory
        self._due.set()

    async def end(self) -> None:
        """Stop, and leave the published objects as they are."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _publish(self) -> None:
        """Publish what is due, as serve/publisher.py does."""
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(TimedClient.connect(self._config))
            reconciler = NodeReconciler(self._publish_config, client, self._due, _log)
            self.written = reconciler.written
            reconciler.open(stack)
            wait = BACK_OFF[0]
            while True:
                await self._due.wait()
                await asyncio.sleep(SETTLE)
                self._due.clear()
                try:
                    await reconciler.reconcile(self._inventory, PublishedFacts((), ()), claims=True)
                    wait = BACK_OFF[0]
                except (FairleadError, OSError) as error:
                    _log(f"{self._publish_config.node}: {error}")
                    asyncio.get_running_loop().call_later(wait * random.uniform(0.8, 1.2), self._due.set)
                    wait = min(2 * wait, BACK_OFF[1])


class AgentFleet:
    """All agents."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self._config = ClusterConfig(facts["server"], ca=facts["ca"].encode())
        self._roles = [AgentRole(**each) for each in facts["roles"]]
        wanted = {machine for role in self._roles for machine in (role.machine, role.later)}
        catalog = load()
        self._found = {machine: detect_machine(machine, catalog) for machine in wanted}
        self._agents: list[SimulatedAgent] = []
        self._past: Counter[str] = Counter()

    async def start(self) -> None:
        """Start all of them at once."""
        self._agents = [self._start_agent(role, role.machine) for role in self._roles]

    async def change(self) -> None:
        """Let accelerators come and go; a running agent detects that, or the agent after a restart."""
        for number, role in enumerate(self._roles):
            if role.later == role.machine:
                continue
            if role.restarts:
                await self._agents[number].end()
                self._past += self._agents[number].written
                self._agents[number] = self._start_agent(role, role.later)
            else:
                self._agents[number].offer(self._found[role.later])

    def report(self) -> dict[str, Any]:
        """Return all counters since the process began."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        written = sum((agent.written for agent in self._agents), self._past)
        return {
            "written": dict(written),
            "asked": dict(TimedClient.asked),
            "failed": dict(TimedClient.failed),
            "took": TimedClient.durations,
            "last": TimedClient.last,
            "cpu": used.ru_utime + used.ru_stime,
            "memory": used.ru_maxrss * 1024,
        }

    def _start_agent(self, role: AgentRole, machine: str) -> SimulatedAgent:
        config = ClusterConfig(self._config.server, ca=self._config.ca, login=AuthInfo(token=role.token))
        return SimulatedAgent(role, config, self._found[machine])


def _log(line: str) -> None:
    print(f"  {line[:LONGEST]}", file=sys.stderr, flush=True)


async def main() -> None:
    """Run commands of the standard input until it ends."""
    fleet = AgentFleet(json.loads(sys.stdin.readline()))
    commands = {"start": fleet.start, "change": fleet.change}
    print("{}", flush=True)
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if line in commands:
            await commands[line]()
        print(json.dumps(fleet.report()), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
