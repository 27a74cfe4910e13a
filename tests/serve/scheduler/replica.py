"""A replica as a process that can be killed: `python -m` this, with what `main` takes.

SIGUSR1 sets its clock to another time, SIGUSR2 has it print a digest of its cache. SIGHUP has it stop just
before it allocates or binds, and resume with the next SIGHUP. The port leads to the API server through a
proxy, and `unfenced` removes the fences from its writes, to show what they are for. `next` has it write the
next version of each format. It also prints what it logs to the standard output, after `log `.
"""

import asyncio
import os
import random
import signal
import sys
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

from fairlead.cluster.client import Client
from fairlead.cluster.config import kubeconfig
from fairlead.cluster.http.transport import Transport
from fairlead.errors import ClusterError, ClusterUnavailableError
from fairlead.serve.scheduler.driver import Scheduler
from fairlead.settings.leader import LeaderElectionConfig
from fairlead.settings.scheduler import SchedulerSettings
from tests import catalogs
from tests.serve.scheduler.chaos.digest import digest
from tests.serve.scheduler.leader.unfenced import unfenced
from tests.serve.scheduler.next_format import adopted

ECHOES = 0.1
"""The part of answered writes that arrive a second time."""
LEASE = 2.0
"""Seconds that a lease lasts without a renewal, in the chaos tests."""


def settings(me: str, namespace: str = "", lease: float = 4.0) -> SchedulerSettings:
    """Return settings with short times; a namespace has a scheduler of its own."""
    held = LeaderElectionConfig(namespace or "kube-system", duration=lease, deadline=lease * 0.75, period=0.3)
    return SchedulerSettings(me, name=namespace or "fairlead", lease=held, in_flight=16)


class SettableClock:
    """A clock that is set to other times."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return time.time() + self._ahead

    def jump(self) -> None:
        """Jump to another time, hours or seconds away."""
        self._ahead = random.choice((-86400.0, -30.0, -3.0, 3.0, 30.0, 86400.0))


class PausableClient(Client):
    """A client that can be stopped between a decision and its writes."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._going = asyncio.Event()
        self._going.set()
        self._dice = random.Random(os.getpid())
        self._echoes: set[asyncio.Task[None]] = set()

    def pause_or_resume(self) -> None:
        """Stop, or resume."""
        if self._going.is_set():
            self._going.clear()
        else:
            self._going.set()

    async def request(self, method: str, path: str, **named: Any) -> bytes:
        if method == "PUT" and "/leases/" in path and not self._going.is_set():
            raise ClusterUnavailableError("paused")  # so the lease expires
        if path.endswith("/binding") or ("/resourceclaims/" in path and path.endswith("/status")):
            await self._going.wait()
        answer = await super().request(method, path, **named)
        if method != "GET" and self._dice.random() < ECHOES:
            echo = asyncio.create_task(self._echo(method, path, **named))
            self._echoes.add(echo)
            echo.add_done_callback(self._echoes.discard)
        return answer

    async def _echo(self, method: str, path: str, **named: Any) -> None:
        """Send a write once more, at once or much later, as a network may."""
        await asyncio.sleep(self._dice.choice((0.0, 0.0, self._dice.uniform(0.5, 2 * LEASE))))
        with suppress(ClusterError, RuntimeError):  # the replica may have ended meanwhile
            await super().request(method, path, **named)


class UnfencedClient(PausableClient):
    """A client whose writes carry no version."""

    async def request(self, method: str, path: str, **named: Any) -> bytes:
        method, path, body = unfenced(method, path, named.pop("body", None))
        return await super().request(method, path, body=body, **named)


async def run(path: str, me: str, namespace: str, port: str, lease: float, fences: str) -> None:
    """Run until SIGTERM."""

    def say(line: str) -> None:
        print(f"{me}: {line}", file=sys.stderr, flush=True)
        print(f"log {line}", flush=True)

    config, wall, stop = kubeconfig.load(path), SettableClock(), asyncio.Event()
    if port:
        config = replace(config, server=f"https://127.0.0.1:{port}")
    kind = UnfencedClient if fences == "unfenced" else PausableClient
    async with kind.connect(config) as client:
        assert isinstance(client, PausableClient)
        scheduler = Scheduler(client, catalogs.shipped(), settings(me, namespace, lease), say, wall)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        loop.add_signal_handler(signal.SIGHUP, client.pause_or_resume)
        loop.add_signal_handler(signal.SIGUSR1, wall.jump)
        loop.add_signal_handler(signal.SIGUSR2, lambda: print(digest(scheduler.cache), flush=True))
        print("ready", flush=True)
        await scheduler.run(stop)


def main(path: str, me: str, namespace: str, port: str, lease: str, fences: str, formats: str) -> None:
    """Run a replica."""
    with adopted() if formats == "next" else nullcontext():
        asyncio.run(run(path, me, namespace, port, float(lease), fences))


if __name__ == "__main__":
    main(*sys.argv[1:])
