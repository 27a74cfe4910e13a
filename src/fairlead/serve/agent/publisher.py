"""The part of the agent that publishes: it runs beside the part that looks, in a thread of its own.

A GPU that hangs a measurement must not keep the kubelet waiting, and an API server that is away must not
keep anyone from reading metrics.
"""

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Final

from fairlead.cluster.api import ClusterClient
from fairlead.errors import FairleadError
from fairlead.host import Host
from fairlead.inventory import Inventory
from fairlead.metrics import PublishStatus
from fairlead.serve.agent.allocator import Allocator
from fairlead.serve.agent.claim_reader import ClaimReader
from fairlead.serve.agent.node_reconciler import NodeReconciler, PublishedFacts
from fairlead.serve.agent.placement_lookup import PlacementLookup
from fairlead.serve.agent.plugins import PluginSet
from fairlead.serve.agent.pod_resources_tracker import PodResourcesTracker
from fairlead.settings.publishing import PublishConfig
from fairlead.units import Seconds

_SETTLE: Final = Seconds(0.2)
"""Changes come in bursts; so much later they are published together."""
_BACK_OFF: Final = (Seconds(1.0), Seconds(60.0))
_PATIENCE: Final = Seconds(8.0)
"""How long a stop may take; a pod is given ten seconds."""


@dataclass(frozen=True, slots=True)
class PublisherEnvironment:
    """What a publisher stands on."""

    terms: PublishConfig
    connect: Callable[[], AbstractAsyncContextManager[ClusterClient]]
    """How the API server is reached."""
    look: Callable[[], Host]
    """Returns the machine as it is now."""


class PublisherThread:
    """Publishes what it is given, until it is stopped."""

    def __init__(self, world: PublisherEnvironment, say: Callable[[str], None]) -> None:
        self._world = world
        self._say = say
        self._inventory: Inventory | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._started = threading.Event()
        self._office: Publisher | None = None
        self.failed = ""
        """Why publishing has ended though nobody stopped it; empty while it goes on."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._started.wait()

    def offer(self, inventory: Inventory) -> None:
        """Take what a scan found; safe from any thread."""
        self._inventory = inventory
        self._wake()

    def problem(self) -> str:
        """Return why not everything is published yet; empty when it is."""
        if self.failed:
            return self.failed
        return self._office.problem() if self._office else "not started yet"

    def snapshot(self) -> PublishStatus:
        """Return what can be counted."""
        return self._office.snapshot() if self._office else PublishStatus()

    def stop(self) -> None:
        """End, leaving labels and slices as they are: the next agent of this node takes them over."""
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(_PATIENCE)

    def _wake(self) -> None:
        if self._loop is not None and self._due is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._due.set)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except FairleadError as error:
            self.failed = str(error)
            self._say(f"publishing ended: {error}{f'; {error.hint}' if error.hint else ''}")
        except Exception as error:
            self.failed = f"a fault of this program: {error!r}"
            raise
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._loop, self._due = asyncio.get_running_loop(), asyncio.Event()
        self._task = asyncio.create_task(self._publish())
        self._started.set()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _publish(self) -> None:
        assert self._due is not None
        async with AsyncExitStack() as stack:
            self._office = Publisher(self._world, self._due, self._say)
            await self._office.open(stack)
            wait = _BACK_OFF[0]
            while True:
                await self._due.wait()
                await asyncio.sleep(_SETTLE)
                self._due.clear()
                problems = await self._office.publish(self._inventory) if self._inventory else ()
                for problem in problems:
                    self._say(f"cannot publish: {problem}; trying again in about {wait:.0f} s")
                if problems:
                    self._later(wait)
                wait = Seconds(min(2 * wait, _BACK_OFF[1])) if problems else _BACK_OFF[0]

    def _later(self, wait: Seconds) -> None:
        """Try again, not all nodes of a cluster at once."""
        assert self._loop is not None
        self._loop.call_later(wait * random.uniform(0.8, 1.2), self._wake)  # noqa: S311 - spreads load


class Publisher:
    """Everything that publishing needs, in the order in which it must happen."""

    def __init__(self, world: PublisherEnvironment, due: asyncio.Event, say: Callable[[str], None]) -> None:
        terms = world.terms
        self._terms = terms
        self._world = world
        self._books = PodResourcesTracker(terms, due, say)
        self._handover = PlacementLookup(terms, due, say)
        self._desk = Allocator(terms, self._books, self._handover, world.look)
        self._plugins = PluginSet(terms, self._desk, due, say)
        self._notices: NodeReconciler | None = None
        self._due = due
        self._say = say

    async def open(self, stack: AsyncExitStack) -> None:
        """Connect to the API server and read the books, before anything is handed out."""
        stack.push_async_callback(self._desk.remove_cdi_spec)
        stack.push_async_callback(self._plugins.close)
        cluster = await stack.enter_async_context(self._world.connect())
        self._notices = NodeReconciler(self._terms, cluster, self._due, self._say)
        self._notices.open(stack)
        self._desk.claims = ClaimReader(cluster)
        stack.push_async_callback(self._notices.withdraw)
        stack.callback(asyncio.create_task(self._handover.probe_access(cluster)).cancel)
        await stack.enter_async_context(self._books.running())

    async def publish(self, inventory: Inventory) -> list[str]:
        """Bring everything that is published to what is true now, and return what went wrong.

        The kubelet and the API server are told apart: neither waits for the other to come back.
        """
        problems = []
        for tell in (self._tell_kubelet, self._tell_cluster):
            try:
                await tell(inventory)
            except (FairleadError, OSError) as error:
                problems.append(str(error))
        return problems

    async def _tell_kubelet(self, inventory: Inventory) -> None:
        if self._books.synced and self._terms.forms:
            await self._books.on_inventory(inventory)
            await self._desk.write_cdi_spec(inventory)
            await self._plugins.reconcile(
                inventory, self._books.ledger, together=self._books.together, kubelet=self._kubelet()
            )

    def _kubelet(self) -> str:
        """Return the kubelet's version, as far as the API server has said it."""
        return self._notices.kubelet if self._notices else ""

    async def _tell_cluster(self, inventory: Inventory) -> None:
        if self._notices is not None:
            said, units = self._books.reported(), self._desk.by_units() if self._books.synced else None
            told = PublishedFacts(self._books.ledger, said, units, hands_over=self._handover.able)
            await self._notices.reconcile(inventory, told, claims=self._plugins.claims_registered)

    def problem(self) -> str:
        """Return why not everything is published yet."""
        waiting = [self._books.problem(), self._plugins.problem()] if self._terms.forms else []
        waiting += [self._notices.problem()] if self._notices else []
        return "; ".join(filter(None, waiting))

    def snapshot(self) -> PublishStatus:
        """Return what can be counted."""
        written = self._notices.written if self._notices else {}
        failed = self._notices.failed if self._notices else {}
        return PublishStatus(
            writes=dict(written),
            errors=dict(failed),
            registered=self._plugins.registered(),
            holdings=self._books.reported(),
            refused=dict(self._desk.refused),
            pod_resources_age=self._books.age(),
        )
